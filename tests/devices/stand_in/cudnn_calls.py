"""What the tests of cuDNN on the stand-in share: the sizes that PyTorch asked its allocator for."""

import torch


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
