"""Kernels that the dispatcher of a CPU build lacks: those of CUDA's own, and those that run without data.

The dispatcher takes an operator apart (CompositeImplicitAutograd) if the device has no kernel for it, and
then backward saves the parts' intermediates. A CPU build would do that to operators that CUDA runs whole.
"""

from __future__ import annotations

from typing import Any

import torch

#: Composite operators with a CUDA kernel, found by comparing the dispatch tables of the CPU build 2.13.0 and
#: the CUDA builds 2.11.0 and 2.15.0 (torch._C._dispatch_has_kernel_for_dispatch_key).
WHOLE_ON_CUDA = ("_fused_rms_norm", "silu_backward", "mish_backward")
#: Operators that write into what they are given, return nothing, and have no kernel without data (2.11 to
#: 2.15): the optimizers' fused steps, which allocate nothing (aten/src/ATen/native/cuda/FusedSgdKernel.cu,
#: FusedAdagradKernel.cu).
IN_PLACE_ALONE = ("_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adagrad_", "_fused_adagrad_.tensor_lr")


def register_cuda_kernels() -> torch.library.Library:
    """Make the dispatcher treat cuda as a CUDA build does, as long as the library that is returned lives.

    The kernels are never run: fake tensors are handled above them.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in WHOLE_ON_CUDA:
        if not has_cuda_kernel(f"aten::{name}"):
            library.impl(name, _never_run, "CUDA")
    for name in IN_PLACE_ALONE:
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, _do_nothing, "Meta")
    return library


def has_cuda_kernel(name: str) -> bool:
    """Whether the operator ``name`` has a kernel for CUDA in this process."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")


def _never_run(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a CUDA kernel was reached on the virtual device: fake tensors should handle it")


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    pass
