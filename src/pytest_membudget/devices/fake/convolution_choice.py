"""Which kernel a CUDA build of PyTorch chooses for a convolution, and how its results lie in memory.

A build without cuDNN, or one that finds no GPU, chooses another: a channels-last network would come out in
NCHW, with copies that no GPU makes. The rules are those of aten/src/ATen/native/Convolution.cpp
(``_select_conv_backend``, ``determine_backend_memory_format``) and ConvUtils.h
(``cudnn_conv_suggest_memory_format``) of pytorch/pytorch, main of 2026, and hold from 2.11 on; the CUDA
wheels 2.11.0 and 2.15.0 choose the same wherever they ask no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format

from ...hardware.gpus import Gpu

_native: Any = torch._C
Backend: Any = _native._ConvBackend

#: cuDNN's depthwise kernels and its bf16 ones (``supportsDepthwiseConvolutionWithCuDNN``,
#: ``supportsBFloat16ConvolutionWithCuDNNv8`` in aten/src/ATen/cuda/detail/CUDAHooks.cpp).
_DEPTHWISE_SINCE: Final = (7, 0)
_BF16_SINCE: Final = (8, 0)
#: ``canUse32BitIndexMath``
_INT_MAX: Final = 2**31 - 1
_CHANNELS_LAST: Final = (torch.channels_last, torch.channels_last_3d)
_BY_CUDNN: Final = (Backend.Cudnn, Backend.CudnnTranspose)


def install_convolutions(gpu_of: Callable[[], Gpu]) -> None:
    """From here on fake convolutions on cuda lie as ``gpu_of()`` would lay them, in any build.

    PyTorch's fake kernels ask two functions of ``torch._C``; for other devices these answer as before.
    """
    select, layout = _native._select_conv_backend, _native._conv_determine_backend_memory_format

    def select_backend(input: torch.Tensor, weight: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if input.device.type != "cuda":
            return select(input, weight, *args, **kwargs)
        names = ("bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return choose_backend(
            input,
            weight,
            given["stride"],
            given["dilation"],
            given["transposed"],
            given["output_padding"],
            given["groups"],
            gpu_of(),
        )

    def determine_layout(input: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        if input.device.type != "cuda":
            return layout(input, weight, backend)  # type: ignore[no-any-return]
        return backend_layout(input, weight, backend)

    _native._select_conv_backend = select_backend
    _native._conv_determine_backend_memory_format = determine_layout


def choose_backend(
    tensor: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    gpu: Gpu,
) -> Any:
    """The ``torch._C._ConvBackend`` of a convolution on ``gpu``; one-dimensional ones count as 1 x n."""
    if tensor.shape[0] == 0 or tensor.shape[1] == 0:
        return Backend.Empty
    dimensions = weight.dim() - 2
    stride, dilation, output_padding = (
        _expanded(sizes, dimensions) for sizes in (stride, dilation, output_padding)
    )
    if dimensions == 1:
        stride, dilation, output_padding = (1, *stride), (1, *dilation), (0, *output_padding)
        tensor, weight, dimensions = in_two_dimensions(tensor, copied=True), in_two_dimensions(weight), 2
    if is_depthwise(tensor, weight, transposed, groups):
        if _by_cudnn_depthwise(tensor, weight, stride, dilation, gpu):
            return Backend.Cudnn
        return Backend.CudaDepthwise2d if dimensions == 2 else Backend.CudaDepthwise3d
    pads_past_stride = any(pad >= step for pad, step in zip(output_padding, stride, strict=True))
    if _runs_on_cudnn(tensor, weight, gpu) and not pads_past_stride:
        return Backend.CudnnTranspose if transposed else Backend.Cudnn
    if transposed:
        return Backend.SlowTranspose2d if dimensions == 2 else Backend.SlowTranspose3d
    if dimensions == 3:
        return Backend.SlowDilated3d
    return Backend.SlowDilated2d if any(step != 1 for step in dilation) else Backend.Slow2d


def is_depthwise(tensor: torch.Tensor, weight: torch.Tensor, transposed: bool, groups: int) -> bool:
    """One group a channel of the input; for tensors of 4 or 5 dimensions."""
    return not transposed and 1 < groups == tensor.shape[1] and weight.shape[0] % groups == 0


def backend_layout(tensor: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
    """How ``backend`` reads operands and lays results: in cuDNN channels last, if either operand is."""
    return cudnn_layout(tensor, weight) if backend in _BY_CUDNN else torch.contiguous_format


def cudnn_layout(tensor: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """``cudnn_conv_suggest_memory_format``: never channels last in fp64."""
    if torch.float64 in (tensor.dtype, weight.dtype):
        return torch.contiguous_format
    suggested = suggest_memory_format(tensor), suggest_memory_format(weight)
    return next((layout for layout in _CHANNELS_LAST if layout in suggested), torch.contiguous_format)


def _runs_on_cudnn(tensor: torch.Tensor, weight: torch.Tensor, gpu: Gpu) -> bool:
    if not torch.backends.cudnn.enabled:
        return False
    return torch.bfloat16 not in (tensor.dtype, weight.dtype) or gpu.capability >= _BF16_SINCE


def _by_cudnn_depthwise(
    tensor: torch.Tensor, weight: torch.Tensor, stride: Sequence[int], dilation: Sequence[int], gpu: Gpu
) -> bool:
    if not torch.backends.cudnn.enabled:
        return False
    if max(tensor.numel(), weight.numel()) > _INT_MAX:
        return True
    if cudnn_layout(tensor, weight) in _CHANNELS_LAST:
        return True
    return (
        gpu.capability >= _DEPTHWISE_SINCE
        and tensor.dtype == weight.dtype == torch.float16
        and tensor.dim() == 4
        and all(step == 1 for step in dilation)
        and (stride[0] == stride[1] or tensor.shape[2] == 1)
        and tensor.shape[1] >= 32
        and _is_fast_on_cudnn(tensor, weight, stride[1])
    )


def _is_fast_on_cudnn(tensor: torch.Tensor, weight: torch.Tensor, stride: int) -> bool:
    """``check_cudnn_depthwise_workload_with_filter``."""
    batch, channels, height, width = tensor.shape
    if height == 1 and stride == 1:
        return True
    kernel = weight.shape[3]
    if weight.shape[2] != kernel or kernel not in (1, 3, 5) or width < 7:
        return False
    if stride != 2:
        return stride == 1
    if batch == 1:
        return kernel != 1 or width <= 28
    if kernel == 1:
        return batch <= 16 and channels >= 128 and width <= 7
    return channels >= 512 or (channels >= 256 and width >= 28)


def _expanded(sizes: Sequence[int], dimensions: int) -> Sequence[int]:
    return sizes if len(sizes) == dimensions else [sizes[0]] * dimensions


def in_two_dimensions(tensor: torch.Tensor, *, copied: bool = False) -> torch.Tensor:
    """A stand-in without memory for a one-dimensional convolution's operand as 1 x n, or ``tensor`` itself.

    ``copied``: PyTorch makes the input contiguous first.
    """
    if tensor.dim() != 3:
        return tensor
    rows, channels, length = tensor.shape
    row, channel, step = (channels * length, length, 1) if copied else tensor.stride()
    return torch.empty_strided(
        (rows, channels, 1, length), (row, channel, step * length, step), dtype=tensor.dtype, device="meta"
    )
