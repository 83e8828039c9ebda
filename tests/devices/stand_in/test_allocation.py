"""PyTorch's allocators on the stand-in's memory: caching, expandable, cudaMallocAsync, pinned."""

import ctypes
import resource

import pytest
import torch

from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.units import GIB, MIB

EXPANDABLE = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
CONTEXT = find_gpu("A100-80GB").context_bytes


def hold(size_bytes, **options):
    return torch.empty(size_bytes, dtype=torch.uint8, **{"device": "cuda", **options})


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free


def one_of_thirty_mib():
    kept = hold(30 * MIB)
    segments = torch.cuda.memory_snapshot()
    found = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), used()]
    expandable = [segment["is_expandable"] for segment in segments]
    del kept
    torch.cuda.empty_cache()
    return [found, expandable, [torch.cuda.memory_reserved(), used()]]


@pytest.mark.parametrize(("setting", "reserved_mib", "expandable"), [({}, 30, False), (EXPANDABLE, 40, True)])
def test_a_block_of_30_mib(stand_in, setting, reserved_mib, expandable):
    """A segment of 30 MiB; expandable ones grow by 20 MiB (kLargeBuffer, CUDACachingAllocator.cpp)."""
    found, is_expandable, after = stand_in(one_of_thirty_mib, imported_with=setting)

    assert found == [30 * MIB, reserved_mib * MIB, CONTEXT + reserved_mib * MIB]
    assert is_expandable == [expandable]
    assert after == [0, CONTEXT]


def places_of(sizes_mib):
    """Where the driver puts one after the other, in MiB from the first."""
    addresses = []
    for size in sizes_mib:
        address = ctypes.c_void_p()
        assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size * MIB)) == 0
        addresses.append(address.value)
    return [(address - addresses[0]) // MIB for address in addresses]


@pytest.mark.parametrize(
    ("sizes_mib", "places"),
    [
        # benchmarks/measured/NVIDIA-H200: five segments of bert-base, and six of lengths-default
        ((20, 12, 48, 48, 12), [0, 20, -64, -128, -80]),
        ((16, 16, 16, 16, 16, 16), [0, 16, -32, -16, -64, -48]),
    ],
)
def test_segments_lie_as_on_a_card(stand_in, sizes_mib, places):
    """32 MiB or a multiple are reserved at once, below those before; the lowest gap is used first."""
    assert stand_in(places_of, sizes_mib) == places


def grown_by_steps():
    kept = []
    for _ in range(3):  # 600 MiB that nothing else fits into, where segments cannot grow
        kept = [hold((len(kept) + 1) * 100 * MIB), *kept]
    try:
        hold(90 * GIB)
    except torch.OutOfMemoryError as error:
        return [torch.cuda.memory_allocated(), str(error)]


def test_expandable_segments_end_at_the_cards_capacity(stand_in):
    allocated, message = stand_in(grown_by_steps, imported_with=EXPANDABLE)

    assert allocated == 600 * MIB
    assert message.startswith("CUDA out of memory. Tried to allocate 90.00 GiB.")


def stream_ordered():
    kept = hold(3 * MIB + 1)
    during = torch.cuda.memory_allocated()
    try:
        hold(90 * GIB)
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
    host = torch.arange(6, dtype=torch.int64).pin_memory()
    device = host.to("cuda", non_blocking=True)
    back = torch.empty(6, dtype=torch.int64, pin_memory=True).copy_(device)
    large = hold(8 * GIB, device="cpu", pin_memory=True)
    return [host.is_pinned(), torch.empty(1).is_pinned(), back.tolist(), large.is_pinned()]


def values_by_size():
    """Copies to a mebibyte are made and larger ones are not."""
    small, large = (torch.full((2**17 + more,), 7, dtype=torch.int64) for more in (0, 1))
    return [int(one.cuda().cpu().sum()) == 7 * len(one) for one in (small, large)]


def segments_again_and_again():
    """64 GiB at a time, 60 TiB together: more than the region of addresses has."""
    seen = 0
    for _ in range(960):
        kept = [hold(8 * GIB) for _ in range(8)]
        seen += sum(tensor.nbytes for tensor in kept)
        del kept
        torch.cuda.empty_cache()
    return [seen > 2**45, used()]


def touched_memory():
    """Memory of a card takes none of the host."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = [torch.zeros(2**30, device="cuda") for _ in range(10)]
    copied = kept[0].cpu()
    del copied
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return [sum(tensor.nbytes for tensor in kept) // GIB, grown < GIB // 2]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (pinned_there_and_back, [True, False, [0, 1, 2, 3, 4, 5], True]),
        (values_by_size, [True, False]),
        (segments_again_and_again, [True, CONTEXT]),
        (touched_memory, [40, True]),
    ],
)
def test_memory_is_pytorchs_own(stand_in, body, value):
    assert stand_in(body) == value
