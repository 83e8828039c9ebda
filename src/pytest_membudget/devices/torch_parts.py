"""The private parts of torch that estimates rest on, each with what it is for; whether torch has them."""

import importlib
import re
from collections.abc import Iterable
from typing import Final

import torch

from ..errors import UnsupportedTorch

OLDEST = (2, 11)

#: The setting of an allocator of which nothing can be said, and what to do.
ASYNC_ALLOCATOR: Final = "backend:cudaMallocAsync"
NO_HISTORY: Final = (
    f"{ASYNC_ALLOCATOR} in PYTORCH_ALLOC_CONF: that allocator records no history, from which "
    "figures are made; take it out for this session"
)

#: (module, attribute path, what it is for)
PARTS: tuple[tuple[str, str, str], ...] = (
    ("torch._C", "_current_autograd_node", "which backward node runs"),
    ("torch._C", "_current_graph_task_id", "whether a backward is running"),
    ("torch._C", "_dispatch_get_all_op_names", "the names of operators"),
    ("torch._C", "_dispatch_get_registrations_for_dispatch_key", "PyTorch's own kernels, to be followed"),
    ("torch._C", "_dispatch_has_kernel_for_dispatch_key", "the operators of host tensors"),
    ("torch._C", "_ForceDispatchKeyGuard", "numbers in the place of tensors"),
    ("torch._C", "_functorch.is_functorch_wrapped_tensor", "parameters inside torch.func"),
    ("torch._C", "_functorch.get_unwrapped", "parameters inside torch.func"),
    ("torch._C", "_profiler.gather_traceback", "which operator allocates"),
    ("torch._C", "_profiler.symbolize_tracebacks", "which operator allocates"),
    ("torch._guards", "TracingContext.try_get", "whether a backward is being compiled"),
    ("torch._tensor_str", "_str", "printing tensors whose values nobody knows"),
    ("torch._tensor_str", "get_summarized_data", "printing large tensors, whose edges alone are read"),
    ("torch._tensor_str", "_tensor_str", "printing tensors whose values nobody knows"),
    ("torch.autograd", "_get_sequence_nr", "at which step of the forward a backward node was made"),
    ("torch.autograd.gradcheck", "_test_backward_mul_by_grad_output", "gradients of zeros"),
    ("torch.autograd.gradcheck", "_test_undefined_backward_mode", "gradients of zeros"),
    ("torch.autograd.graph", "_engine_run_backward", "which line calls a backward"),
    ("torch.cuda", "_lazy_call", "recording from the first use of CUDA on"),
    ("torch.cuda.memory", "_get_memory_metadata", "a history that the body records"),
    ("torch.cuda.memory", "_record_memory_history", "the allocator's history"),
    ("torch.cuda.memory", "_set_memory_metadata", "what the step was doing when memory was allocated"),
    ("torch.cuda.memory", "_snapshot", "the allocator's history"),
    ("torch.library", "get_kernel", "PyTorch's own kernels, to be followed"),
    ("torch.library", "_impls", "which of PyTorch's own kernels are in Python"),
    ("torch.utils._python_dispatch", "_disable_current_modes", "calling a kernel in Python inside a mode"),
)


def check_torch() -> None:
    """Raise ``UnsupportedTorch`` if this torch is too old, lacks one of ``PARTS``, or records no history."""
    if torch_release() < OLDEST:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is too old for the stand-in: it is made for torch "
            f"{OLDEST[0]}.{OLDEST[1]} and later; install a newer torch"
        )
    check_parts(PARTS)
    if torch.backends.cuda.is_built() and torch.cuda.get_allocator_backend() == "cudaMallocAsync":
        raise UnsupportedTorch(NO_HISTORY)


def check_parts(parts: Iterable[tuple[str, str, str]]) -> None:
    """Raise ``UnsupportedTorch`` if this torch lacks one of ``parts``, given as ``PARTS`` are."""
    if missing := "; no ".join(f"{name}.{path} ({why})" for name, path, why in parts if not _has(name, path)):
        raise UnsupportedTorch(
            f"torch {torch.__version__} is not a torch that the stand-in was made for: it has no "
            + f"{missing}. Install a torch that this release names as tested, or a newer pytest-membudget."
        )


def torch_release() -> tuple[int, int]:
    """Major and minor of the installed torch."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if found is None:
        raise UnsupportedTorch(
            f"torch's version is {str(torch.__version__)!r}, which names no release; install torch "
            f"{OLDEST[0]}.{OLDEST[1]} or later"
        )
    return int(found[1]), int(found[2])


def _has(module: str, path: str) -> bool:
    try:
        found = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return False
    return True
