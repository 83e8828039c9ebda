"""PyTorch's allocators on the stand-in's memory: caching, expandable, cudaMallocAsync, pinned."""

import pytest

from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.units import GIB, MIB

EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


def one_of_thirty_mib():
    import torch

    kept = torch.empty(30 * 2**20, dtype=torch.uint8, device="cuda")
    free, total = torch.cuda.mem_get_info()
    segments = torch.cuda.memory_snapshot()
    found = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), total - free]
    expandable = [segment["is_expandable"] for segment in segments]
    del kept
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return [found, expandable, [torch.cuda.memory_reserved(), total - free]]


@pytest.mark.parametrize(("setting", "reserved_mib", "expandable"), [({}, 30, False), (EXPANDABLE, 40, True)])
def test_a_block_of_30_mib(stand_in, setting, reserved_mib, expandable):
    """A segment of 30 MiB; expandable ones grow by 20 MiB (kLargeBuffer, CUDACachingAllocator.cpp)."""
    context = find_gpu("A100-80GB").context_bytes

    found, is_expandable, after = stand_in(one_of_thirty_mib, imported_with=setting)

    assert found == [30 * MIB, reserved_mib * MIB, context + reserved_mib * MIB]
    assert is_expandable == [expandable]
    assert after == [0, context]


def grown_by_steps():
    import torch

    kept = []
    for _ in range(3):  # 600 MiB that nothing else fits into, where segments cannot grow
        kept = [torch.empty((len(kept) + 1) * 100 * 2**20, dtype=torch.uint8, device="cuda"), *kept]
    try:
        torch.empty(90 * 2**30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return [torch.cuda.memory_allocated(), str(error)]


def test_expandable_segments_end_at_the_cards_capacity(stand_in):
    allocated, message = stand_in(grown_by_steps, imported_with=EXPANDABLE)

    assert allocated == 600 * MIB
    assert message.startswith("CUDA out of memory. Tried to allocate 90.00 GiB.")


def stream_ordered():
    import torch

    kept = torch.empty(3 * 2**20 + 1, dtype=torch.uint8, device="cuda")
    during = torch.cuda.memory_allocated()
    try:
        torch.empty(90 * 2**30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        message = str(error)
    del kept
    torch.cuda.synchronize()
    return [during, torch.cuda.memory_allocated(), torch.cuda.memory.get_allocator_backend(), message]


def test_cuda_malloc_async_is_pytorchs_other_backend(stand_in):
    during, after, backend, message = stand_in(
        stream_ordered,
        imported_with={"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
        not_modelled=["cudaMemPoolGetAttribute: reserved memory"],
    )

    assert backend == "cudaMallocAsync"
    assert (during, after) == (3 * MIB + 512, 0)  # in steps of 512 bytes
    assert "out of memory" in message


def pinned_there_and_back():
    import torch

    host = torch.arange(6, dtype=torch.int64).pin_memory()
    device = host.to("cuda", non_blocking=True)
    back = torch.empty(6, dtype=torch.int64, pin_memory=True).copy_(device)
    large = torch.empty(8 * 2**30, dtype=torch.uint8, pin_memory=True)
    return [host.is_pinned(), torch.empty(1).is_pinned(), back.tolist(), large.is_pinned()]


def test_pinned_memory_carries_values(stand_in):
    assert stand_in(pinned_there_and_back) == [True, False, [0, 1, 2, 3, 4, 5], True]


def values_by_size():
    import torch

    small = torch.full((2**17,), 7, dtype=torch.int64)  # 1 MiB
    large = torch.full((2**17 + 1,), 7, dtype=torch.int64)
    return [int(tensor.cuda().cpu().sum()) for tensor in (small, large)]


def test_copies_to_a_mebibyte_are_made_and_larger_ones_are_not(stand_in):
    small, large = stand_in(values_by_size)

    assert small == 7 * 2**17
    assert large != 7 * (2**17 + 1)


def segments_again_and_again(rounds):
    import torch

    seen = 0
    for _ in range(rounds):
        kept = [torch.empty(8 * 2**30, dtype=torch.uint8, device="cuda") for _ in range(8)]
        seen += sum(tensor.nbytes for tensor in kept)
        del kept
        torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return [seen, total - free]


def test_addresses_do_not_run_out(stand_in):
    """64 GiB at a time, 60 TiB together: more than the region of addresses has."""
    seen, used = stand_in(segments_again_and_again, 960)

    assert seen == 960 * 64 * GIB > 2**45
    assert used == find_gpu("A100-80GB").context_bytes


def touched_memory():
    import resource

    import torch

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = [torch.zeros(2**30, device="cuda") for _ in range(10)]
    total = sum(tensor.nbytes for tensor in kept)
    copied = kept[0].cpu()
    del copied
    return [total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024]


def test_device_memory_takes_no_host_memory(stand_in):
    total, host = stand_in(touched_memory)

    assert total == 40 * GIB
    assert host < GIB // 2


def recorded_history():
    import torch

    torch.cuda.memory._record_memory_history(stacks="python")
    kept = torch.empty(5 * 2**20, dtype=torch.uint8, device="cuda")
    size = kept.nbytes
    del kept
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return [size, [[entry["action"], entry["size"]] for entry in snapshot["device_traces"][0]]]


def test_the_history_is_pytorchs_own(stand_in):
    size, actions = stand_in(recorded_history)

    assert actions == [
        ["segment_alloc", 20 * MIB],
        ["alloc", size],
        ["free_requested", size],
        ["free_completed", size],
    ]


def sharing_is_refused():
    import torch

    kept = torch.empty(4, device="cuda")
    try:
        kept.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        return str(error)


def test_sharing_with_another_process_is_refused(stand_in):
    assert "operation not supported" in stand_in(sharing_is_refused)
