"""A run without what memory is for takes the same bytes, in the same order, as one with all of it."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

MIB = 2**20


def train():
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        hidden = torch.randn(64, 512, device="cuda")
        for layer in model:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        loss = hidden.square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())


def step(optimizer, parameter):
    optimizer.step()
    optimizer.zero_grad()


def step_in_backward():
    layers = [nn.Linear(512, 512, device="cuda") for _ in range(4)]
    for layer in layers:
        optimizer = torch.optim.SGD(layer.parameters(), momentum=0.9)
        layer.weight.register_post_accumulate_grad_hook(partial(step, optimizer))
    for _ in range(2):
        nn.Sequential(*layers)(torch.randn(8, 512, device="cuda")).sum().backward()


def compile_a_block():
    block = torch.compile(nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)).cuda())
    for _ in range(2):
        block(torch.randn(64, 256, device="cuda")).sum().backward()


def copy_to_the_host():
    kept = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    return [kept.cpu().nbytes for _ in range(2)]


def run_out_of_memory():
    held = []
    try:
        while True:
            held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return len(held)


def reset_the_peak_and_read_its_history():
    torch.cuda.memory._record_memory_history()
    torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    kept = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    [trace] = torch.cuda.memory._snapshot()["device_traces"]
    allocated = [one for one in trace if one["action"] == "alloc"]
    return [kept.nbytes, [one["size"] for one in allocated], [one["frames"][0]["name"] for one in allocated]]


def host_peak(found):
    return found.report.host.peak if found.report.host is not None else None


BODIES = [
    train,
    step_in_backward,
    compile_a_block,
    copy_to_the_host,
    run_out_of_memory,
    reset_the_peak_and_read_its_history,
]


@pytest.mark.parametrize("body", BODIES)
def test_it_takes_the_same_as_one_with_all(trace, body):
    whole, figures = (
        trace(body, limited=body is run_out_of_memory, figures_only=only, has_end=True)
        for only in (False, True)
    )

    assert figures.value == whole.value
    assert figures.allocations == whole.allocations
    assert figures.report.peak == whole.report.peak
    assert figures.report.held_bytes == whole.report.held_bytes
    assert host_peak(figures) == host_peak(whole)


LEFT = []


def leave_a_part():
    part, rest = (torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (20, 30))
    LEFT.append(part)
    del rest


def test_of_the_figures_nothing_is_said_but_what_they_are(trace):
    found = trace(leave_a_part, figures_only=True, has_end=True)

    assert (found.allocated, found.report.held_bytes) == (50 * MIB, 20 * MIB)
    assert found.has(unattributed=50 * MIB)
    assert found.report.holders == found.report.held.holders == found.report.phases == ()


def hold(*sizes):
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    return len(kept)


def test_who_takes_the_same_in_another_order_takes_otherwise(trace):
    found = {trace(hold, *sizes).allocations for sizes in ((MIB, 2 * MIB), (2 * MIB, MIB), (MIB, 2 * MIB))}

    assert len(found) == 2
