"""Copies and buffers of PyTorch's other kernels: what they convert first, read contiguous or sum up later.

Read in aten/src/ATen/native/ of pytorch/pytorch 2.6.0: TensorCompare.cpp (``where``), cuda/SoftMax.cu,
TensorAdvancedIndexing.cpp, TensorTransformations.h and cuda/TensorTransformations.cu (``roll``), Repeat.h,
cuda/ForeachReduceOp.cu, cuda/DistanceKernel.cu, cuda/IndexKernel.cpp (``masked_scatter_``), cuda/Im2Col.cu,
cuda/Col2Im.cu, cuda/ReflectionPad.cu, cuda/MaxUnpooling.cu, cuda/UpSampleLinear1d.cu, UpSampleBicubic2d.cu
and UpSampleTrilinear3d.cu, cuda/AveragePool3d.cu and cuda/AdaptiveMaxPooling2d.cu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from .kernel_layouts import (
    INT64,
    Args,
    Rule,
    accumulation_bytes,
    argument,
    contiguous_copy_bytes,
    contiguous_inputs,
    first_tensor,
    tensor_bytes,
)
from .kernel_sums import sum_temporaries

aten = torch.ops.aten

#: Numbers that one block of a foreach kernel takes: ``kChunkSize``, ATen/native/cuda/MultiTensorApply.cuh
#: in the CUDA wheels 2.11.0 and 2.15.0.
_CHUNK = 65536


def choose(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``where``: operands of another type are converted, 0-dim host tensors brought to the device."""
    output = first_tensor(result)
    sizes = []
    for operand in args[1:3]:
        if operand.device.type == "cpu" and output.device.type != "cpu":
            sizes.append(output.element_size())
        elif operand.dtype != output.dtype:
            sizes.append(operand.numel() * output.element_size())
    return [*sizes, args[0].numel() if args[0].dtype == torch.uint8 else 0]


def lookup(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``index``: (self, indices): indices brought to the device, and made int64."""
    sizes = []
    for index in args[1]:
        if index is None or index.dtype in (torch.bool, torch.uint8):
            continue
        arrives = index.device.type == "cpu" and args[0].device.type != "cpu"
        widens = index.dtype == torch.int32
        sizes += [tensor_bytes(index) if arrives else 0, INT64 * index.numel() if widens else 0]
    return sizes


def roll(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, shifts, dims): one dimension after the other, each into a new tensor."""
    dims = argument(args, kwargs, 2, "dims", ())
    if len(dims) > 1:
        return (len(dims) - 1) * [tensor_bytes(args[0])]
    return contiguous_copy_bytes(args[0])


def repeats(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``repeat_interleave``: (repeats): where each one's copies end; read contiguous."""
    return [INT64 * args[0].numel(), *contiguous_copy_bytes(args[0])]


def foreach_norm(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, ord, dtype): for each tensor as many partial norms as the largest has chunks."""
    return _partial_results(args[0], argument(args, kwargs, 2, "dtype"), widens=True)


def foreach_largest(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_foreach_max``: partial maxima, in the tensors' own type."""
    return _partial_results(args[0], None, widens=False)


def _partial_results(given: Any, dtype: torch.dtype | None, *, widens: bool) -> list[int]:
    tensors = [tensor for tensor in given if tensor.numel()]
    if not tensors:
        return []
    chunks = max(math.ceil(tensor.numel() / _CHUNK) for tensor in tensors)
    own = dtype or tensors[0].dtype
    return [len(tensors) * chunks * (accumulation_bytes(own) if widens else own.itemsize)]


def masked_scatter(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, mask, source): how many of the mask's ones come before each; mask and source contiguous."""
    tensor, mask, source = args[:3]
    return [INT64 * tensor.numel(), *contiguous_copy_bytes(mask.expand(tensor.shape), source)]


def distances_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_cdist_backward``: (grad, x1, x2, p, cdist): a gradient for each pair, then their sum."""
    first, second = args[1:3]
    output = first_tensor(result)
    if args[3] == 0 or output.numel() == 0 or second.numel() == 0:
        return []
    batch = output.numel() // (output.shape[-1] * output.shape[-2])
    pairs = torch.empty(batch, second.shape[-2], *first.shape[-2:], dtype=output.dtype, device="meta")
    return [tensor_bytes(pairs), *sum_temporaries(pairs, 1, output, gpu)]


def own_distances_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``_pdist_backward``: (grad, self, p, pdist): a gradient for each pair with a later row."""
    rows, width = args[1].shape
    if rows < 2 or args[2] == 0:
        return []
    pairs = torch.empty(rows - 1, rows, width, dtype=args[1].dtype, device="meta")
    return [tensor_bytes(pairs), *sum_temporaries(pairs, 0, first_tensor(result), gpu)]


def softmax_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad, output, dim, input type): their product, and what of it and the output is not contiguous.

    Of log_softmax there is no product (softmax_backward_cuda_out, pytorch/pytorch 000cace5).
    """
    grad, output = (
        torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        for tensor in args[:2]
    )
    product = grad * output
    return [tensor_bytes(product), *contiguous_copy_bytes(product, output)]


#: Which arguments an operator's kernel reads contiguous, by their positions.
_READ_CONTIGUOUS: Final[Mapping[Any, tuple[int, ...]]] = {
    aten._softmax.default: (0,),
    aten._log_softmax.default: (0,),
    aten._log_softmax_backward_data.default: (0, 1),
    aten.im2col.default: (0,),
    aten.col2im.default: (0,),
    aten.reflection_pad1d.default: (0,),
    aten.reflection_pad1d_backward.default: (0,),
    aten.reflection_pad2d.default: (0,),
    aten.reflection_pad2d_backward.default: (0,),
    aten.reflection_pad3d.default: (0,),
    aten.max_unpool2d.default: (0, 1),
    aten.max_unpool3d.default: (0, 1),
    aten.upsample_linear1d_backward.default: (0,),
    aten.upsample_bicubic2d_backward.default: (0,),
    aten.upsample_trilinear3d_backward.default: (0,),
    aten.avg_pool3d.default: (0,),
    aten.avg_pool3d_backward.default: (0,),
    aten.adaptive_max_pool2d.default: (0,),
    aten.adaptive_max_pool2d_backward.default: (0, 2),
}

ELEMENTWISE_RULES: Final[Mapping[Any, Rule]] = {
    aten.where.self: choose,
    aten.index.Tensor: lookup,
    aten.roll.default: roll,
    aten._softmax_backward_data.default: softmax_backward,
    aten.repeat_interleave.Tensor: repeats,
    aten._foreach_norm.Scalar: foreach_norm,
    aten._foreach_max.default: foreach_largest,
    aten.masked_scatter.default: masked_scatter,
    aten.masked_scatter_.default: masked_scatter,
    aten._cdist_backward.default: distances_backward,
    aten._pdist_backward.default: own_distances_backward,
    **{operator: contiguous_inputs(*places) for operator, places in _READ_CONTIGUOUS.items()},
}
