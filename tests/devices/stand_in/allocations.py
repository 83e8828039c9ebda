"""What a body on the stand-in asks of PyTorch's allocator, beyond what was there before it."""

import gc

import torch

from pytest_membudget.devices.stand_in.libraries import StandInLibraries


def peak_of(run):
    """The most bytes requested at once while ``run()`` ran, beyond what was held before it.

    A product is made before: torch 2.15 frees cuBLAS's workspace after each, earlier versions keep the first.
    """
    for dtype in (torch.float32, torch.float64):
        torch.ones(2, 2, device="cuda", dtype=dtype).mm(torch.ones(2, 2, device="cuda", dtype=dtype))
    gc.collect()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


def not_modelled():
    """The names recorded so far, sorted."""
    return sorted(StandInLibraries().not_modelled())
