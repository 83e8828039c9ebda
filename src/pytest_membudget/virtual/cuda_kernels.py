"""Which operators have kernels of their own on CUDA, where a CPU build knows only how to compose them.

The dispatcher takes an operator apart (CompositeImplicitAutograd) if the device has no kernel for it, and
then backward saves the parts' intermediates. A CPU build would do that to operators that CUDA runs whole.
"""

from __future__ import annotations

from typing import Any

import torch

#: Composite operators with a CUDA kernel, found by comparing the dispatch tables of the CPU build 2.13.0 and
#: the CUDA builds 2.11.0 and 2.15.0 (torch._C._dispatch_has_kernel_for_dispatch_key).
WHOLE_ON_CUDA = ("_fused_rms_norm", "silu_backward", "mish_backward")


def register_cuda_kernels() -> torch.library.Library:
    """Make the dispatcher treat cuda as a CUDA build does, as long as the library that is returned lives.

    The kernels are never run: fake tensors are handled above them.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in WHOLE_ON_CUDA:
        if not has_cuda_kernel(f"aten::{name}"):
            library.impl(name, _never_run, "CUDA")
    return library


def has_cuda_kernel(name: str) -> bool:
    """Whether the operator ``name`` has a kernel for CUDA in this process."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")


def _never_run(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a CUDA kernel was reached on the virtual device: fake tensors stand above it")
