"""``batch_norm`` on the virtual device: cuDNN's operator or PyTorch's own, as a CUDA build chooses.

A build without cuDNN runs its own operator for all, which saves other tensors for backward. The rules are
those of ``_select_batch_norm_backend`` and ``_batch_norm_impl_index`` (pytorch/pytorch, main of 2025:
aten/src/ATen/native/Normalization.cpp); the CUDA wheels 2.11.0 and 2.15.0 choose the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten

#: Rows of a batch that cuDNN takes, in training and in evaluation.
_MOST_ROWS_TRAINING: Final = 880801
_MOST_ROWS_EVALUATING: Final = 65535
_INT_MAX: Final = 2**31 - 1


def register_batch_norms() -> torch.library.Library:
    """From here on ``batch_norm`` of CUDA tensors is :func:`batch_norm`, for as long as the library lives.

    Without autograd (inference mode) fake tensors hand the operator to their mode before it comes here: that
    mode calls :func:`batch_norm` itself.
    """
    library = torch.library.Library("aten", "IMPL")
    for dispatch_key in ("AutogradCUDA", "CUDA"):
        library.impl("batch_norm", batch_norm, dispatch_key)
    return library


def batch_norm(
    tensor: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> torch.Tensor:
    """What ``torch.batch_norm`` computes on a GPU."""
    if tensor.numel() == 0:
        return _of_nothing(tensor, weight, bias)
    parameters = weight, bias, running_mean, running_var
    if not runs_on_cudnn(tensor, parameters, training):
        native = aten.native_batch_norm.default(tensor, *parameters, training, momentum, eps)
        output: torch.Tensor = native[0]
        return output
    given = [None if parameter is None else parameter.contiguous() for parameter in parameters]
    arranged = tensor.contiguous(memory_format=suggest_memory_format(tensor))
    normalized = aten.cudnn_batch_norm.default(arranged, *given, training, momentum, eps)
    result: torch.Tensor = normalized[0]
    return result


def runs_on_cudnn(tensor: torch.Tensor, parameters: Sequence[torch.Tensor | None], training: bool) -> bool:
    """Whether cuDNN normalizes ``tensor``; ``parameters`` are weight, bias, running mean and variance.

    Not in bf16, not halves with parameters in halves, and not over a batch of vectors.
    """
    weight, bias, mean, variance = parameters
    if weight is None or bias is None or not torch.backends.cudnn.enabled:
        return False
    if (mean is None) != (variance is None) or (mean is None and not training):
        return False
    if torch.bfloat16 in (tensor.dtype, weight.dtype):
        return False
    if tensor.dtype == torch.float16 and weight.dtype != torch.float32:
        return False
    rows = _MOST_ROWS_TRAINING if training else _MOST_ROWS_EVALUATING
    return tensor.dim() >= 3 and tensor.shape[0] <= rows and tensor.numel() < _INT_MAX


def _of_nothing(tensor: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    output = tensor.clone()
    if weight is not None:
        output = output * weight[0]
    return output if bias is None else output + bias[0]
