"""Device memory that PyTorch's normalization kernels take for themselves and give back before they return.

Read in aten/src/ATen/native/cuda/layer_norm_kernel.cu (pytorch/pytorch, a version of 2025 with the fused
RMS norm: 2.6.0 has no partial sums yet) and group_norm_kernel.cu (2.6.0); the kernels' names are in
libtorch_cuda.so of the CUDA wheels 2.11.0 and 2.15.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, accumulation_bytes, contiguous_copy_bytes
from .kernel_sums import sum_temporaries

aten = torch.ops.aten

_BLOCKS = 64 * 1024 // 2


def layer_norm(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, normalized_shape, weight, bias, eps), without bias for RMS norm; read contiguous."""
    return contiguous_copy_bytes(*(tensor for tensor in args[:4] if isinstance(tensor, torch.Tensor)))


def layer_norm_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)"""
    gradient, tensor, shape = args[:3]
    copies = contiguous_copy_bytes(gradient, tensor, args[5], args[6])
    return copies + parameter_partials(tensor, math.prod(shape), sum(args[7][1:]), gpu)


def rms_norm_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_out, input, normalized_shape, rstd, weight, output_mask)"""
    gradient, tensor, shape = args[:3]
    copies = contiguous_copy_bytes(gradient, tensor, args[4])
    return copies + parameter_partials(tensor, math.prod(shape), int(args[5][1]), gpu)


def parameter_partials(tensor: torch.Tensor, numbers: int, parameters: int, gpu: Gpu) -> list[int]:
    """Many short rows: each parameter's gradient is summed by blocks of rows first, then by ``sum(0)``."""
    rows = tensor.numel() // max(1, numbers)
    if not parameters or rows <= 64 * 1024 or numbers // 32 >= gpu.multiprocessor_count // 2:
        return []
    blocks = min(_BLOCKS // math.ceil(numbers / 32), math.ceil(rows / 32))
    partials = torch.empty(blocks, numbers, dtype=tensor.dtype, device="meta")
    sums = sum_temporaries(partials, [0], partials.sum(0), gpu)
    each = blocks * numbers * tensor.element_size()
    return [*parameters * [each], numbers * tensor.element_size(), *sums]


def group_norm(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, weight, bias, N, C, HxW, group, eps): a factor and a shift for each channel of each sample."""
    tensor, weight, bias, samples, channels, pixels = args[:6]
    if pixels == 1 or (weight is None and bias is None):
        return []
    return 2 * [samples * channels * accumulation_bytes(tensor.dtype)]


def group_norm_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)"""
    tensor, weight = args[1], args[4]
    samples, channels, pixels, groups = args[5:9]
    number = accumulation_bytes(tensor.dtype)
    each = samples * channels * number
    sums = [each, each]
    if pixels == 1:
        return sums
    if args[9][0]:
        sums += [each if weight is not None else 0, *2 * [samples * groups * number]]
    return sums


NORM_RULES: Final[Mapping[Any, Rule]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten._fused_rms_norm.default: layer_norm,
    aten._fused_rms_norm_backward.default: rms_norm_backward,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
}
