"""Copies that pooling and resizing kernels make of tensors that do not lie as they read or write them.

Read in aten/src/ATen/native/cuda/DilatedMaxPool2d.cu, AveragePool2d.cu, AdaptiveAveragePooling.cu,
UpSampleNearest1d.cu, 2d and 3d, and UpSampleBilinear2d.cu (pytorch/pytorch, 2022 to 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format

from ...hardware.gpus import Gpu
from .kernel_layouts import Args, Rule, contiguous_copy_bytes, first_tensor, tensor_bytes

aten = torch.ops.aten

#: Channels from which on kernels for channels last are used.
_NHWC_CHANNELS: Final = 4
_NHWC_CHANNELS_BILINEAR: Final = 16


def pool(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, ...), read contiguous in the layout that it comes nearest to."""
    return _copies(suggest_memory_format(args[0]), args[0])


def max_pool_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, input, kernel_size, stride, padding, dilation, ceil_mode, indices)"""
    return _copies(suggest_memory_format(args[1]), args[0], args[1], args[7])


def average_pool_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, input, ...)"""
    return _copies(suggest_memory_format(args[1]), args[0])


def nearest(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input or grad_output, ...): in NCHW, and the result too, unless both are images in channels last.

    Recorded for volumes (HugePandaCoder/octree-nca-groupeq, my_snapshot.pickle): the result twice.
    """
    output = first_tensor(result)
    if _in_channels_last(args[0], output, _NHWC_CHANNELS):
        return _copies(torch.channels_last, args[0])
    return contiguous_copy_bytes(args[0], output)


def bilinear(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, ...), read by its strides in NCHW."""
    if _in_channels_last(args[0], first_tensor(result), _NHWC_CHANNELS_BILINEAR):
        return _copies(torch.channels_last, args[0])
    return []


def _in_channels_last(tensor: torch.Tensor, output: torch.Tensor, channels: int) -> bool:
    return (
        suggest_memory_format(tensor) is torch.channels_last
        and tensor.shape[1] >= channels
        and output.is_contiguous(memory_format=torch.channels_last)
    )


def _copies(layout: torch.memory_format, *tensors: torch.Tensor) -> list[int]:
    return [0 if tensor.is_contiguous(memory_format=layout) else tensor_bytes(tensor) for tensor in tensors]


POOLING_RULES: Final[Mapping[Any, Rule]] = {
    aten.max_pool2d_with_indices.default: pool,
    aten.max_pool2d_with_indices_backward.default: max_pool_backward,
    aten.avg_pool2d.default: pool,
    aten.avg_pool2d_backward.default: average_pool_backward,
    aten._adaptive_avg_pool2d.default: pool,
    aten._adaptive_avg_pool2d_backward.default: average_pool_backward,
    aten.upsample_bilinear2d.default: bilinear,
    aten.upsample_bilinear2d_backward.default: nearest,
    **{
        getattr(aten, f"{prefix}{dimensions}{suffix}").default: nearest
        for prefix in ("upsample_nearest", "_upsample_nearest_exact")
        for dimensions in ("1d", "2d", "3d")
        for suffix in ("", "_backward")
    },
}
