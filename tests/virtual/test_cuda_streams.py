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
