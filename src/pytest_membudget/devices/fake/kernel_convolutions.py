"""Device memory that convolutions take for themselves and give back before they return.

Copies of operands that do not lie as the kernel wants them, cuDNN's workspace, and the columns that PyTorch's
own kernels unfold. Read in aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp, cudnn/Conv_v8.cpp,
cuda/ConvolutionMM2d.cu, cuda/DepthwiseConv2d.cu and DepthwiseConv3d.cu (pytorch/pytorch, 2025 and 2026).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .convolution_choice import Backend, backend_layout, choose_backend, in_two_dimensions
from .cudnn_workspaces import Convolution, Direction, largest_workspace_bytes, workspace_bytes
from .kernel_layouts import Args, Rule, tensor_bytes
from .kernel_sums import sum_temporaries

aten = torch.ops.aten

_BY_CUDNN: Final = (Backend.Cudnn, Backend.CudnnTranspose)
#: How many times its operands and result a convolution's workspace may be: see ``_uncharged``.
_MOST_COPIES: Final = 4
#: PyTorch's own kernels that multiply matrices of unfolded columns, one sample at a time.
_UNFOLDING: Final = (
    Backend.Slow2d, Backend.SlowDilated2d, Backend.SlowDilated3d,
    Backend.SlowTranspose2d, Backend.SlowTranspose3d,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Call:
    """A convolution's operands as its kernel sees them: with two dimensions of space at least."""

    tensor: torch.Tensor
    weight: torch.Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    backend: Any
    layout: torch.memory_format
    #: the copy of a one-dimensional input that was not contiguous
    held: tuple[int, ...]


def convolution(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)"""
    call = _call(args[0], args[1], args[3:9], gpu)
    output = in_two_dimensions(result)
    copies = _copies(call, call.tensor, call.weight)
    return [*call.held, *copies, *_forward_kernel(call, output, gpu)]


def convolution_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
    groups, output_mask); the gradients are made one after the other.
    """
    call = _call(args[1], args[2], args[4:10], gpu)
    gradient, of_weight, of_bias = in_two_dimensions(args[0]), result[1], result[2]
    later = [0 if tensor is None else tensor_bytes(tensor) for tensor in (of_weight, of_bias)]
    needs_input, needs_weight, needs_bias = args[10]
    moments = []
    if needs_input:
        arranged = call.tensor if needs_weight and call.backend in _BY_CUDNN else None
        copies = _copies(call, arranged, gradient, call.weight)
        moments.append(([*copies, *_input_gradient_kernel(call, gradient, gpu)], sum(later)))
    if needs_weight:
        copies = _copies(call, call.tensor, gradient)
        moments.append(([*copies, *_weight_gradient_kernel(call, gradient, gpu)], later[1]))
    if needs_bias:
        dims = [0, *range(2, gradient.dim())]
        moments.append((sum_temporaries(gradient, dims, of_bias, gpu), 0))
    return [*call.held, *_highest(moments)]


def convolution_bound(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """What ``convolution`` may take beyond what is charged: see :func:`_uncharged`."""
    call = _call(args[0], args[1], args[3:9], gpu)
    return _uncharged(call, [_direction(call, Direction.FORWARD)], in_two_dimensions(result), gpu)


def convolution_backward_bound(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """What ``convolution_backward`` may take beyond what is charged: see :func:`_uncharged`."""
    call = _call(args[1], args[2], args[4:10], gpu)
    asked = (Direction.INPUT_GRADIENT, Direction.WEIGHT_GRADIENT)
    needed = [_direction(call, one) for one, needs in zip(asked, args[10], strict=False) if needs]
    return _uncharged(call, needed, in_two_dimensions(args[0]), gpu)


def _uncharged(call: _Call, directions: Sequence[Direction], output: torch.Tensor, gpu: Gpu) -> list[int]:
    """Where no cuDNN can be asked: some times the operands and the result, in their copies in its workspace.

    No bound holds for all of cuDNN's engines; this one held for every layer of ResNet-50 and of Stable
    Diffusion's U-Net, with 1, 8 and 64 images, in fp32, fp16 and bf16, both layouts and all directions, on
    T4, A100, L4 and H100, as cuDNN 9.26 plans them (the most was 3.7 times; 2.3 from Ampere on).
    """
    if call.backend not in _BY_CUDNN:
        return []
    operands = sum(tensor_bytes(tensor) for tensor in (call.tensor, call.weight, output))
    asked = [workspace_bytes(_described(call, one, output), gpu) for one in directions]
    return [_MOST_COPIES * operands] if any(size is None for size in asked) else []


def _forward_kernel(call: _Call, output: torch.Tensor, gpu: Gpu) -> list[int]:
    if call.backend in _BY_CUDNN:
        return _workspace(call, Direction.FORWARD, output, gpu)
    return _columns(call, output) + _grouped(call, output)


def _input_gradient_kernel(call: _Call, gradient: torch.Tensor, gpu: Gpu) -> list[int]:
    if call.backend in _BY_CUDNN:
        return _workspace(call, Direction.INPUT_GRADIENT, gradient, gpu)
    return _columns(call, gradient) + _grouped(call, call.tensor)


def _weight_gradient_kernel(call: _Call, gradient: torch.Tensor, gpu: Gpu) -> list[int]:
    if call.backend in _BY_CUDNN:
        return _workspace(call, Direction.WEIGHT_GRADIENT, gradient, gpu)
    return _columns(call, gradient) + _grouped(call, call.weight)


def _workspace(call: _Call, direction: Direction, output: torch.Tensor, gpu: Gpu) -> list[int]:
    ask: Callable[[Convolution, Gpu], int | None] = workspace_bytes
    if torch.backends.cudnn.benchmark:
        ask = largest_workspace_bytes
    return [ask(_described(call, _direction(call, direction), output), gpu) or 0]


def _direction(call: _Call, direction: Direction) -> Direction:
    """A transposed convolution is the gradient of a plain one, and the other way round."""
    if call.backend == Backend.CudnnTranspose and direction is not Direction.WEIGHT_GRADIENT:
        return Direction.FORWARD if direction is Direction.INPUT_GRADIENT else Direction.INPUT_GRADIENT
    return direction


def _described(call: _Call, direction: Direction, output: torch.Tensor) -> Convolution:
    wide, narrow = tuple(call.tensor.shape), tuple(output.shape)
    if call.backend == Backend.CudnnTranspose:
        wide, narrow = narrow, wide
    cudnn: Any = torch.backends.cudnn
    return Convolution(
        direction=direction,
        x=wide,
        w=tuple(call.weight.shape),
        y=narrow,
        padding=call.padding,
        stride=call.stride,
        dilation=call.dilation,
        dtype=str(call.tensor.dtype).removeprefix("torch."),
        channels_last=call.layout is not torch.contiguous_format,
        deterministic=cudnn.deterministic or torch.are_deterministic_algorithms_enabled(),
        allow_tf32=_allows_tf32(),
    )


def _allows_tf32() -> bool:
    """By either interface: the older one raises where the newer one was used to say otherwise."""
    cudnn: Any = torch.backends.cudnn
    try:
        return bool(cudnn.allow_tf32)
    except RuntimeError:
        return bool(cudnn.conv.fp32_precision == "tf32")


def _copies(call: _Call, *tensors: torch.Tensor | None) -> list[int]:
    return [
        0 if tensor is None or tensor.is_contiguous(memory_format=call.layout) else tensor_bytes(tensor)
        for tensor in tensors
    ]


def _columns(call: _Call, output: torch.Tensor) -> list[int]:
    """What the kernel reads of one sample and group, for each place that it writes."""
    if call.backend not in _UNFOLDING:
        return []
    places = output if call.backend not in (Backend.SlowTranspose2d, Backend.SlowTranspose3d) else call.tensor
    read = math.prod(call.weight.shape[1:])
    return [read * math.prod(places.shape[2:]) * call.tensor.element_size()]


def _grouped(call: _Call, result: torch.Tensor) -> list[int]:
    """Each group's part of the result, before ``cat``."""
    return [tensor_bytes(result)] if call.groups > 1 and call.backend in _UNFOLDING else []


def _highest(moments: Sequence[tuple[list[int], int]]) -> list[int]:
    """The temporaries of the moment that holds most; its second number are results still to be made."""
    if not moments:
        return []
    sizes, missing = max(moments, key=lambda moment: sum(moment[0]) - moment[1])
    kept = []
    for size in sorted(sizes, reverse=True):
        kept.append(max(size - missing, 0))
        missing -= size - kept[-1]
    return kept


def _call(tensor: torch.Tensor, weight: torch.Tensor, options: Args, gpu: Gpu) -> _Call:
    stride, padding, dilation, transposed, output_padding, groups = options
    backend = choose_backend(tensor, weight, stride, dilation, transposed, output_padding, groups, gpu)
    held = (tensor_bytes(tensor),) if tensor.dim() == 3 and not tensor.is_contiguous() else ()
    space = weight.dim() - 2
    flat = space == 1
    tensor, weight = in_two_dimensions(tensor, copied=True), in_two_dimensions(weight)
    return _Call(
        tensor=tensor,
        weight=weight,
        stride=_sizes(stride, space, 1 if flat else None),
        padding=_sizes(padding, space, 0 if flat else None),
        dilation=_sizes(dilation, space, 1 if flat else None),
        groups=groups,
        backend=backend,
        layout=backend_layout(tensor, weight, backend),
        held=held,
    )


def _sizes(given: Sequence[int], space: int, before: int | None) -> tuple[int, ...]:
    whole = tuple(given) if len(given) == space else (given[0],) * space
    return whole if before is None else (before, *whole)


CONVOLUTION_RULES: Final[Mapping[Any, Rule]] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
}

CONVOLUTION_BOUNDS: Final[Mapping[Any, Rule]] = {
    aten.convolution.default: convolution_bound,
    aten.convolution_backward.default: convolution_backward_bound,
}
