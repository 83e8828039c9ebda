"""Device memory that batch norm takes for itself and gives back before it returns.

Read in aten/src/ATen/native/cuda/Normalization.cu and Normalization.cuh, and cudnn/BatchNorm.cpp
(pytorch/pytorch, 2024 and 2025). cuDNN takes neither a workspace nor a reserve for NCHW: in the recorded
history JasperSolt/EoR_NN snapshot.pickle a training step has only the output and two statistics of a number
a channel. What it takes for channels last in fp32 and fp16 is not known and not counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, accumulation_bytes, contiguous_copy_bytes, first_tensor, tensor_bytes

aten = torch.ops.aten

# Normalization.cuh, of which CUDA's values are these
_PER_THREAD: Final = 16
_TILE_WIDTH: Final = 32
_MOST_BLOCKS: Final = 128
_THREADS: Final = 512
_WORTH_SPLITTING: Final = 8
_SEMAPHORE: Final = 4
#: What is kept of a channel by each block: mean, squares, count; and in backward two sums.
_STATISTICS: Final = 4
_SUMS: Final = 2


def native(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, weight, bias, running_mean, running_var, training, momentum, eps)"""
    if not args[5] or not _is_channels_last(args[0]):
        return []
    return _staging(args[0], _STATISTICS)


def native_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)

    In NCHW one kernel does all; in channels last the gradient's sums come first, and then its elements.
    """
    gradient, tensor = args[:2]
    if not _is_channels_last(tensor):
        return contiguous_copy_bytes(gradient)
    if not args[7] and not any(args[9][1:]):
        return []
    sums = 2 * [tensor.shape[1] * accumulation_bytes(tensor.dtype)]
    if not _is_channels_last(gradient):
        return sums
    elements = tensor_bytes(first_tensor(result)) if args[9][0] else 0
    staging = sum(_staging(tensor, _SUMS))
    return [*sums, max(staging - elements, 0)]


def cudnn_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, grad_output, ...): the gradient as the input lies."""
    layout = suggest_memory_format(args[0])
    return [0 if args[1].is_contiguous(memory_format=layout) else tensor_bytes(args[1])]


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """``batch_norm_use_channels_last_kernels``: images in channels last, and batches of vectors."""
    if tensor.is_contiguous():
        return tensor.stride(1) == 1
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)


def _staging(tensor: torch.Tensor, numbers: int) -> list[int]:
    """What blocks leave for each other where several share a channel (``flexible_launch_configs``)."""
    channels = tensor.shape[1]
    rows = tensor.numel() // channels
    width = min(_power(channels), _TILE_WIDTH)
    height = min(_power(math.ceil(rows / _PER_THREAD)), _THREADS // width)
    if width * height != _THREADS:
        width = min(_power(channels), _THREADS // height)
    blocks = min(math.ceil(rows / (height * _PER_THREAD)), _MOST_BLOCKS)
    if blocks < _WORTH_SPLITTING:
        return []
    kept = numbers * channels * blocks * accumulation_bytes(tensor.dtype)
    return [kept, _SEMAPHORE * math.ceil(channels / width)]


def _power(number: int) -> int:
    """The largest power of two that is no larger (``lastPow2``)."""
    return 1 << (max(number, 1).bit_length() - 1)


BATCH_NORM_RULES: Final[Mapping[Any, Rule]] = {
    aten.native_batch_norm.default: native,
    aten.native_batch_norm_backward.default: native_backward,
    aten.cudnn_batch_norm_backward.default: cudnn_backward,
}
