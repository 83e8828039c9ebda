"""``torch.cuda``'s statistics, as the allocator's model has them; figures by the allocator's rules."""

import os

import torch

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


def test_memory_is_answered_by_the_model(trace):
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
    nested = torch.cuda.memory_stats_as_nested_dict()
    segments = torch.cuda.memory_snapshot()
    names = (
        "allocated_bytes.all.current", "allocated_bytes.all.peak", "requested_bytes.all.current",
        "reserved_bytes.all.current", "active_bytes.all.peak", "allocation.all.current",
        "segment.all.current", "num_alloc_retries", "num_ooms", "num_device_alloc",
    )  # fmt: skip
    del held
    return [
        [stats[name] for name in names],
        nested["reserved_bytes"]["all"]["current"],
        sorted([one["segment_type"], one["total_size"], one["allocated_size"]] for one in segments),
        "allocated_bytes" in torch.cuda.memory_summary(abbreviated=True),
    ]


def test_statistics_have_pytorchs_keys(trace):
    """4,000 bytes round up to 4,096 in a segment of 2 MiB; 4 MiB lie in one of 20 MiB."""
    stats, reserved, segments, summarised = trace(statistics).value

    allocated = 4096 + 4 * MIB
    assert stats == [allocated, allocated, 4000 + 4 * MIB, 22 * MIB, allocated, 2, 2, 0, 0, 2]
    assert reserved == 22 * MIB
    assert segments == [["large", 20 * MIB, 4 * MIB], ["small", 2 * MIB, 4096]]
    assert summarised


def histories():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    torch.cuda.memory._dump_snapshot(os.devnull)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return [sorted(snapshot), torch.cuda.get_allocator_backend()]


def test_a_snapshot_has_pytorchs_keys(trace):
    assert trace(histories).value == [["device_traces", "segments"], "native"]


def half_of_the_card():
    torch.cuda.set_per_process_memory_fraction(0.5)
    held = []
    try:
        while True:
            held.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return len(held), torch.cuda.get_per_process_memory_fraction()


def test_a_fraction_of_the_card_can_be_asked_for(trace):
    """A T4 has 14.56 GiB."""
    assert trace(half_of_the_card, gpu="T4", limited=True).value == [7, 0.5]


def history_of_a_test():
    import pickle
    import tempfile

    before = torch.empty(2**20, device="cuda")
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    torch.cuda.memory._set_memory_metadata("batch 0")
    kept = torch.empty(2**21, device="cuda")
    torch.cuda.memory._set_memory_metadata("")
    del before  # noted without a text: an empty one is none
    with tempfile.NamedTemporaryFile() as file:
        torch.cuda.memory._dump_snapshot(file.name)
        content = pickle.load(file)
    torch.cuda.memory._record_memory_history(None)
    (trace,) = content["device_traces"]
    described = [(e["action"], e["size"], e["user_metadata"].partition(",")[0]) for e in trace]
    return [described, trace[0]["frames"][0]["name"], kept.nbytes, len(content["segments"])]


def test_a_test_may_record_a_history_of_its_own(trace):
    """What it held before is in the segments; its free is told without a request."""
    described, frame, kept, segments = trace(history_of_a_test).value

    assert described == [
        ["alloc", 2**23, "batch 0"],
        ["free_requested", 2**22, ""],
        ["free_completed", 2**22, ""],
    ]
    assert (frame, kept, segments) == ("aten::empty.memory_format", 2**23, 1)


def snapshot_without_a_history():
    kept = torch.empty(2**20, device="cuda")
    found = torch.cuda.memory._snapshot()
    return [found["device_traces"], found["segments"][0]["allocated_size"], kept.nbytes]


def test_without_a_history_a_snapshot_has_the_segments(trace):
    assert trace(snapshot_without_a_history).value == [[[]], 2**22, 2**22]


def cleared():
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    with_workspaces = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    return [with_workspaces, torch.cuda.memory_allocated()]


def test_workspaces_of_cublas_are_given_back_when_asked_for(trace):
    """Of forward's thread and backward's; two matrices of 16 KiB are left: ``x`` and its gradient."""
    with_workspaces, left = trace(cleared, workspaces_of=[2, 13]).value

    assert with_workspaces == left + 2 * 8_519_680
    assert left == 2 * 64 * 64 * 4
