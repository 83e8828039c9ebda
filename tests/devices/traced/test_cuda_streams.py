"""Streams and events: nothing runs on them, but each stream has pools of memory of its own."""

import pytest
import torch

MIB = 2**20


def on_a_stream():
    side = torch.cuda.Stream(priority=-1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        inside = torch.cuda.current_stream() == side
    torch.cuda.current_stream().wait_stream(side)
    torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(None):
        outside = torch.cuda.current_stream() == torch.cuda.default_stream()
    with side, side:
        pass
    back = torch.cuda.current_stream().stream_id
    return [inside, outside, back, isinstance(side, torch.Stream), side == torch.cuda.Stream(), side.query()]


def test_each_stream_has_pools_of_its_own(trace):
    """The main stream cannot use the 20 MiB segment that the other left."""
    traced = trace(on_a_stream)

    assert traced.value == [True, True, 0, True, False, True]
    assert traced.report.peak.reserved_bytes == 40 * MIB
    assert traced.allocated == 4 * MIB


def recorded_on_a_stream(recorded):
    block = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    if recorded:
        block.record_stream(torch.cuda.Stream())
    del block
    stats = torch.cuda.memory_stats()
    return stats["active_bytes.all.current"], stats["allocated_bytes.all.current"]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_recorded_stream_keeps_a_freed_block_active(trace, recorded):
    assert trace(recorded_on_a_stream, recorded).value == [4 * MIB if recorded else 0, 0]


def events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    start.wait()
    end.synchronize()
    torch.cuda.current_stream().wait_event(torch.cuda.Stream().record_event())
    torch.Event(device="cuda").record(torch.Stream(device="cuda"))
    return 1000 / start.elapsed_time(end) > 0 and end.query()


def test_events_have_happened_and_took_time(trace):
    assert trace(events).value is True


def forward_on_a_stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        values = torch.zeros(MIB, device="cuda", requires_grad=True)
        loss = values.exp().sum()
    loss.backward()


def test_backward_runs_on_the_stream_of_its_forward(trace):
    """The stream's 20 MiB hold values, exp and gradient, its 2 MiB the loss; the loss's gradient is ours."""
    traced = trace(forward_on_a_stream)

    assert traced.report.peak.reserved_bytes == (20 + 2 + 2) * MIB
    assert traced.report.peak.allocated_bytes == 3 * 4 * MIB + 2 * 512


def products_on_two_streams():
    square = torch.zeros(64, 64, device="cuda")
    square @ square
    with torch.cuda.stream(torch.cuda.Stream()):
        square @ square
    square @ square
    return torch.cuda.memory_allocated()


def test_each_stream_has_a_cublas_workspace_of_its_own(trace):
    """Kept until 2.14, 8,519,680 bytes each below Hopper; the matrix has 16 KiB."""
    release = tuple(map(int, torch.__version__.split(".")[:2]))

    assert trace(products_on_two_streams).value == 16 * 1024 + (2 * 8_519_680 if release < (2, 15) else 0)
