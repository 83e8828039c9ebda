"""Device memory that ordinary CUDA kernels of PyTorch take for themselves and give back before they return.

A trace on fake tensors does not run the kernels and so does not see it. Rules by operator: reductions, sorts,
normalizations, matrix products, and here what element-wise kernels and losses convert or copy first.
Read in aten/src/ATen/native/ of pytorch/pytorch (2025): TensorCompare.cpp, ReduceOps.cpp, Loss.cpp,
cuda/Loss.cu, cuda/SoftMax.cu, cuda/ForeachReduceOp.cu. Not known and not counted: cuDNN's workspaces
(convolutions, recurrent layers, batch norm), what depends on data (``nonzero``, ``unique``, masks as
indices), ``topk``'s search buffers, ``embedding_bag``. On ROCm other kernels run: nothing is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ..gpus import Gpu
from . import kernel_norms, kernel_products, kernel_reductions, kernel_sorting
from .kernel_layouts import (
    Args,
    Rule,
    accumulation_bytes,
    argument,
    contiguous_copy_bytes,
    first_tensor,
    tensor_bytes,
)
from .kernel_reductions import sum_temporaries

aten = torch.ops.aten

#: Numbers that one block of a foreach kernel takes: ``kChunkSize``, ATen/native/cuda/MultiTensorApply.cuh
#: in the CUDA wheels 2.11.0 and 2.15.0.
_CHUNK = 65536
_NO_REDUCTION = 0  # at::Reduction::None


def kernel_temporaries(func: Any, args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """Sizes in bytes of what ``func``'s kernel holds at once at its own peak, beside inputs and outputs."""
    rule = _RULES.get(func)
    if rule is None or gpu.backend != "cuda":
        return []
    return [size for size in rule(args, kwargs, result, gpu) if size]


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


def running_sum(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``cumsum``, ``cumprod``: the input in the result's type, and contiguous."""
    tensor, output = args[0], first_tensor(result)
    converted = tensor.numel() * output.element_size()
    cast = converted if tensor.dtype != output.dtype else 0
    return [cast, 0 if tensor.is_contiguous() else converted]


def softmax(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, dim, half_to_float) reads a contiguous input."""
    return contiguous_copy_bytes(args[0])


def softmax_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, output, dim, input_dtype) reads both contiguous."""
    return contiguous_copy_bytes(args[0], args[1])


def pointwise_loss(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, target, reduction): every element's loss, then its mean or sum."""
    return _reduced_loss(args, argument(args, kwargs, 2, "reduction", 1), result, gpu)


def cross_entropy_of_bits(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``binary_cross_entropy``: (self, target, weight, reduction)."""
    return _reduced_loss(args, argument(args, kwargs, 3, "reduction", 1), result, gpu)


def cross_entropy_of_logits(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """The input's log-sigmoid too; (self, target, weight, pos_weight, reduction)."""
    reduction = argument(args, kwargs, 4, "reduction", 1)
    return [tensor_bytes(args[0]), *_reduced_loss(args, reduction, result, gpu)]


def _reduced_loss(args: Args, reduction: int, result: Any, gpu: Gpu) -> list[int]:
    if reduction == _NO_REDUCTION:
        return []
    output = first_tensor(result)
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    losses = torch.empty(shape, dtype=output.dtype, device="meta")
    return [tensor_bytes(losses), *sum_temporaries(losses, None, output, gpu)]


def foreach_norm(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, ord, dtype): for every tensor as many partial norms as the largest has chunks."""
    tensors = [tensor for tensor in args[0] if tensor.numel()]
    if not tensors:
        return []
    chunks = max(math.ceil(tensor.numel() / _CHUNK) for tensor in tensors)
    dtype = argument(args, kwargs, 2, "dtype") or tensors[0].dtype
    return [len(tensors) * chunks * accumulation_bytes(dtype)]


def draw(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``multinomial``: (self, num_samples, replacement); noise like the input, unless replaced."""
    replacement = argument(args, kwargs, 2, "replacement", False)
    return [tensor_bytes(args[0])] if args[1] == 1 or not replacement else []


_RULES: Final[Mapping[Any, Rule]] = {
    **dict.fromkeys(kernel_reductions.SUMS, kernel_reductions.add_up),
    **dict.fromkeys(kernel_reductions.EXTREMES, kernel_reductions.extreme),
    **dict.fromkeys(kernel_reductions.TRUTHS, kernel_reductions.truth),
    **dict.fromkeys(kernel_reductions.INDEXED, kernel_reductions.extreme_with_index),
    **dict.fromkeys(kernel_reductions.SPREADS, kernel_reductions.spread),
    aten.aminmax.default: kernel_reductions.extremes,
    aten.linalg_vector_norm.default: kernel_reductions.vector_norm,
    aten.logsumexp.default: kernel_reductions.log_sum_exp,
    aten.embedding_dense_backward.default: kernel_sorting.embedding_backward,
    aten.index_put.default: kernel_sorting.index_put,
    aten.index_put_.default: kernel_sorting.index_put,
    aten._index_put_impl_.default: kernel_sorting.index_put,
    aten.sort.default: kernel_sorting.sort,
    aten.sort.stable: kernel_sorting.sort,
    aten.topk.default: kernel_sorting.topk,
    aten.native_layer_norm.default: kernel_norms.layer_norm,
    aten.native_layer_norm_backward.default: kernel_norms.layer_norm_backward,
    aten._fused_rms_norm.default: kernel_norms.layer_norm,
    aten._fused_rms_norm_backward.default: kernel_norms.rms_norm_backward,
    aten.native_group_norm.default: kernel_norms.group_norm,
    aten.native_group_norm_backward.default: kernel_norms.group_norm_backward,
    aten.mm.default: kernel_products.product,
    aten.addmm.default: kernel_products.product,
    aten.addmm_.default: kernel_products.product,
    aten.bmm.default: kernel_products.batch_product,
    aten.baddbmm.default: kernel_products.batch_product,
    aten.baddbmm_.default: kernel_products.batch_product,
    aten.mv.default: kernel_products.matrix_vector,
    aten.addmv.default: kernel_products.matrix_vector,
    aten.where.self: choose,
    aten.cumsum.default: running_sum,
    aten.cumprod.default: running_sum,
    aten._softmax.default: softmax,
    aten._log_softmax.default: softmax,
    aten._softmax_backward_data.default: softmax_backward,
    aten._log_softmax_backward_data.default: softmax_backward,
    aten.mse_loss.default: pointwise_loss,
    aten.smooth_l1_loss.default: pointwise_loss,
    aten.huber_loss.default: pointwise_loss,
    aten.binary_cross_entropy.default: cross_entropy_of_bits,
    aten.binary_cross_entropy_with_logits.default: cross_entropy_of_logits,
    aten._foreach_norm.Scalar: foreach_norm,
    aten.multinomial.default: draw,
}

KERNELS: Final = frozenset(_RULES)
