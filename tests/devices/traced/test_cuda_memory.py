"""``torch.cuda``'s statistics, and reports of tests that change what is recorded."""

import pytest
import torch
from torch import nn

from pytest_membudget.hardware.gpus import find_gpu

MIB = 2**20


def memory():
    cuda = torch.cuda
    seen = [cuda.memory_allocated(), cuda.mem_get_info()]
    block = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    seen.append([cuda.memory_allocated(), cuda.max_memory_allocated("cuda"), cuda.memory_reserved(0)])
    del block
    seen.append([cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved()])
    cuda.reset_peak_memory_stats()
    seen.append([cuda.max_memory_allocated(), cuda.max_memory_reserved()])
    free_before = cuda.mem_get_info()[0]
    cuda.empty_cache()
    seen.append([cuda.memory_reserved(), cuda.mem_get_info()[0] - free_before])
    return seen


def test_memory_is_what_the_card_has_and_the_test_holds(trace):
    """30 MiB are a segment of their own, which stays cached until it is given back."""
    gpu = find_gpu("A100-80GB")
    at_first, free_and_total, held, freed, reset, emptied = trace(memory).value

    assert at_first == 0
    assert free_and_total == [gpu.total_bytes - gpu.context_bytes, gpu.total_bytes]
    assert held == [30 * MIB] * 3
    assert freed == [0, 30 * MIB, 30 * MIB]
    assert reset == [0, 30 * MIB]
    assert emptied == [0, 30 * MIB]


def test_resetting_the_peak_does_not_reset_the_reports(trace):
    assert trace(memory).allocated == 30 * MIB


def statistics():
    held = torch.empty(1000, device="cuda"), torch.empty(MIB, device="cuda")
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    names = (
        "allocated_bytes.all.current", "allocated_bytes.all.peak", "requested_bytes.all.current",
        "reserved_bytes.all.current", "active_bytes.all.peak", "allocation.all.current",
        "segment.all.current", "num_alloc_retries", "num_ooms", "num_device_alloc",
    )  # fmt: skip
    del held
    return [
        [stats[name] for name in names],
        sorted([one["segment_type"], one["total_size"], one["allocated_size"]] for one in segments),
    ]


def test_statistics_are_those_of_pytorchs_allocator(trace):
    """4,000 bytes round up to 4,096 in a segment of 2 MiB; 4 MiB lie in one of 20 MiB."""
    stats, segments = trace(statistics).value

    allocated = 4096 + 4 * MIB
    assert stats == [allocated, allocated, 4000 + 4 * MIB, 22 * MIB, allocated, 2, 2, 0, 0, 2]
    assert segments == [["large", 20 * MIB, 4 * MIB], ["small", 2 * MIB, 4096]]


def recorded_by_the_test(how):
    weight = torch.empty(2 * MIB, device="cuda")
    if how != "not":
        torch.cuda.memory._record_memory_history(max_entries=10)
    if how == "ended":
        torch.cuda.memory._record_memory_history(enabled=None)
    linear = nn.Linear(1024, 1024, bias=False, device="cuda")
    for _ in range(3):
        linear(torch.ones(1024, 1024, device="cuda"))
    return weight.nbytes


@pytest.mark.parametrize("how", ["begun", "ended"])
def test_a_test_that_records_a_history_of_its_own_has_the_same_figure(trace, how):
    """PyTorch keeps one history: with it, nobody knows what the memory is for."""
    traced = trace(recorded_by_the_test, how)

    assert traced.allocated == trace(recorded_by_the_test, "not").allocated
    assert traced.report.components["unattributed"]
