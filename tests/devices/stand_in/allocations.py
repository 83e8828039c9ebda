"""What a body on the stand-in asks of PyTorch's allocator: the most at once, or block by block."""

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
    libraries = StandInLibraries()
    return sorted([*libraries.not_modelled(), *libraries.refused()])


def requests(call):
    """The sizes of all blocks handed out during ``call``, in order."""
    torch.cuda.synchronize()  # CUDA is initialized before its history begins
    torch.cuda.memory._record_memory_history(context=None, max_entries=100_000)
    try:
        kept = call()
        events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    del kept
    return [event["size"] for event in events if event["action"] == "alloc"]


def without(sizes, *known):
    """``sizes`` but for one of each that is ``known``, which must be there."""
    rest = list(sizes)
    for size in known:
        rest.remove(size)
    return rest
