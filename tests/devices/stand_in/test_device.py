"""The device of workers: its limits and metrics, and what a test does with CUDA's record and processes."""

import ctypes

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pytest_membudget.hardware.gpus import find_gpu

MIB = 2**20


def hold(mib, device="cuda"):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)


def until_it_is_full(most):
    held = []
    try:
        while len(held) < most:
            held.append(hold(1024))
    except torch.cuda.OutOfMemoryError as error:
        return len(held), str(error)
    return len(held), ""


def test_a_limited_card_runs_out_of_memory_as_cuda_does_and_others_never(trace):
    """A T4 has 14.56 GiB, less its context: fourteen buffers of 1 GiB fit."""
    count, text = trace(until_it_is_full, 100, gpu="T4", limited=True).value

    assert count == 14
    assert text.startswith(
        "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 14.56 GiB"
    )
    assert trace(until_it_is_full, 100, gpu="T4").value == [100, ""]


def two_segments():
    """2 MiB for the small pool, and 22 MiB for 21: the rest of 1 MiB is not split off, and so allocated."""
    held = torch.empty(1, device="cuda"), hold(21)
    del held


@pytest.mark.parametrize("gpu", ["A100-80GB", "T4"])
def test_reserved_counts_whole_segments_and_device_the_context(trace, gpu):
    reserved, device = (trace(two_segments, metric=metric, gpu=gpu) for metric in ("reserved", "device"))

    context = find_gpu(gpu).context_bytes
    assert reserved.report.peak["reserved"] == 24 * MIB
    assert reserved.has(rounding=MIB + 508, cached=2 * MIB - 512, context=0)
    assert device.report.peak["device"] == 24 * MIB + context
    assert device.context == context > 0


def taken_by_others():
    """22 MiB of PyTorch's, with 48 MiB of others', and 16 MiB when PyTorch has given its own back."""
    address, own = ctypes.c_void_p(), ctypes.CDLL(None)
    held = hold(21)
    assert own.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(48 * MIB)) == 0
    own.cudaFree(address)
    del held
    torch.cuda.empty_cache()
    assert own.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(16 * MIB)) == 0


def test_device_counts_what_others_take_of_the_card(trace):
    """As nvidia-smi does. CuPy, Numba and FAISS allocate so."""
    device, allocated = (trace(taken_by_others, metric=one) for one in ("device", "allocated"))

    assert device.report.peak["device"] == (22 + 48) * MIB + find_gpu("A100-80GB").context_bytes
    assert device.has(unattributed=48 * MIB)
    assert allocated.allocated == 22 * MIB
    assert allocated.has(unattributed=0)


def reset():
    block = hold(30)
    del block
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()


def test_resetting_the_peak_does_not_reset_the_reports(trace):
    traced, gpu = trace(reset), find_gpu("A100-80GB")

    assert traced.value == [0, [gpu.total_bytes - gpu.context_bytes - 30 * MIB, gpu.total_bytes]]
    assert traced.allocated == 30 * MIB


def on_both_cards():
    return [hold(1024, f"cuda:{index}").device.index for index in (0, 1)]


def test_memory_on_another_ranks_card_is_reported(trace):
    traced = trace(on_both_cards, world_size=2)

    assert traced.allocated == 2**30
    assert traced.report.not_modelled == ("1.00 GiB on cuda:1, which is another rank's: not counted",)


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        pixels = numpy.ones(2, dtype=numpy.float32)
        return {"ids": torch.arange(index, index + 3), "pixels": pixels, "label": index}


def loaded(workers, pin_memory):
    loader = DataLoader(
        Samples(), batch_size=2, num_workers=workers, pin_memory=pin_memory, persistent_workers=workers > 0
    )
    seen = []
    for batch in loader:
        on_device = {name: value.to("cuda", non_blocking=True) for name, value in batch.items()}
        seen.append([on_device["ids"].tolist(), list(on_device["pixels"].shape), on_device["label"].tolist()])
    return seen, batch["ids"].is_pinned()


@pytest.mark.parametrize(("workers", "pin_memory"), [(0, False), (2, False), (2, True)])
def test_loaders_hand_over_what_their_datasets_hold(trace, workers, pin_memory):
    traced = trace(loaded, workers, pin_memory)

    batches = [[[[0, 1, 2], [1, 2, 3]], [2, 2], [0, 1]], [[[2, 3, 4], [3, 4, 5]], [2, 2], [2, 3]]]
    assert traced.value == [batches, pin_memory]
    assert not traced.assumptions


class OnCuda(Samples):
    def __getitem__(self, index):
        return torch.ones(1, device="cuda")


def broken():
    try:
        list(DataLoader(OnCuda(), num_workers=2))
    except RuntimeError as error:
        return str(error)


def test_workers_of_loaders_have_no_device(trace):
    assert "Cannot re-initialize CUDA in forked subprocess" in trace(broken).value
