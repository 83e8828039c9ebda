"""The rules of PyTorch's sums, norms, products and maxima: which numbers their kernels reduce, and how wide.

Types and vector widths of the kernels: names of ``reduce_kernel``'s instances in libtorch_cuda.so of the
CUDA wheels 2.11.0 and 2.15.0. What happens before and after them: aten/src/ATen/native/ReduceOps.cpp and
cuda/ReduceSumProdKernel.cu of pytorch/pytorch 2.6.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...kernels.reductions import NumberTypes
from .kernel_layouts import (
    INT64,
    Args,
    Rule,
    accumulation_bytes,
    argument,
    first_tensor,
    is_half,
    tensor_bytes,
)
from .kernel_reductions import reduction_buffers

aten = torch.ops.aten


def _dimensions(tensor: torch.Tensor, dim: Any) -> list[int]:
    every = list(range(tensor.dim()))
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return every
    return [every[index] for index in (dim if isinstance(dim, list | tuple) else [dim]) if every]


def sum_temporaries(
    tensor: torch.Tensor, dim: Any, output: torch.Tensor, gpu: Gpu, widens: bool = True
) -> list[int]:
    """A sum or norm; the input in the output's type first, unless it is a half summed in fp32.

    ``widens``: 16-bit numbers are loaded eight at a time (``sum`` and ``mean``).
    """
    kept = tensor.dtype == output.dtype or (is_half(tensor.dtype) and output.dtype == torch.float32)
    dtype = tensor.dtype if kept else output.dtype
    numbers = NumberTypes(
        dtype.itemsize,
        accumulation_bytes(dtype),
        output.element_size(),
        vector=8 if widens and is_half(dtype) else 4,
        sums_in_output=not is_half(output.dtype),
    )
    cast = 0 if kept else tensor.numel() * dtype.itemsize
    return [cast, *reduction_buffers(tensor, _dimensions(tensor, dim), numbers, gpu)]


def add_up(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``sum`` and ``mean``: (self, dim, keepdim, dtype); the forms over everything have no dim."""
    dim = args[1] if len(args) > 1 else None
    return sum_temporaries(args[0], dim, first_tensor(result), gpu)


def vector_norm(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``linalg_vector_norm``: (self, ord, dim, keepdim)."""
    dim = argument(args, kwargs, 2, "dim")
    return sum_temporaries(args[0], dim, first_tensor(result), gpu, widens=False)


def multiply(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``prod`` and ``nansum``: (self, dim, keepdim), four numbers a load for halves too."""
    dim = argument(args, kwargs, 1, "dim")
    return sum_temporaries(args[0], dim, first_tensor(result), gpu, widens=False)


def count(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``count_nonzero``: (self, dim): where it is not zero, then the sum of that."""
    mask = torch.empty_like(args[0], dtype=torch.bool, device="meta")
    dim = argument(args, kwargs, 1, "dim")
    return [mask.numel(), *sum_temporaries(mask, dim, first_tensor(result), gpu)]


def _plain(partial: int, args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    tensor, output = args[0], first_tensor(result)
    single = partial == tensor.element_size() and not is_half(tensor.dtype)
    numbers = NumberTypes(tensor.element_size(), partial, output.element_size(), sums_in_output=single)
    dim = argument(args, kwargs, 1, "dim")
    return reduction_buffers(tensor, _dimensions(tensor, dim), numbers, gpu)


def truth(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``any``, ``all``: booleans (for input of another type from 2.12 on)."""
    return _plain(1, args, kwargs, result, gpu)


def extreme(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``amax``, ``amin``, ``max``, ``min`` of everything: partial results in the input's own type."""
    return _plain(args[0].element_size(), args, kwargs, result, gpu)


def extreme_with_index(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``max`` and ``min`` over a dimension, ``argmax``, ``argmin``: pairs of a number and its index."""
    return _plain(2 * INT64, args, kwargs, result, gpu)


def extremes(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``aminmax``: pairs of two numbers."""
    dim = kwargs.get("dim")
    return _plain(2 * args[0].element_size(), [args[0], dim], {}, result, gpu)


def spread(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``var`` and ``std``: mean, squares, count and count again (``WelfordData``), two numbers a load."""
    tensor, output = args[0], first_tensor(result)
    partial = 32 if tensor.dtype == torch.float64 else 16
    numbers = NumberTypes(tensor.element_size(), partial, output.element_size(), 2, sums_in_output=False)
    dim = argument(args, kwargs, 1, "dim")
    return reduction_buffers(tensor, _dimensions(tensor, dim), numbers, gpu)


def log_sum_exp(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """The rows' maxima, then all of the input less them (aten/src/ATen/native/ReduceOps.cpp)."""
    tensor, output = args[0], first_tensor(result)
    sums = sum_temporaries(tensor, args[1], output, gpu)
    return [tensor_bytes(output), tensor.numel() * output.element_size(), *sums]


REDUCTION_RULES: Final[Mapping[Any, Rule]] = {
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim), add_up),
    **dict.fromkeys((aten.prod.default, aten.prod.dim_int, aten.nansum.default), multiply),
    **dict.fromkeys((aten.count_nonzero.default, aten.count_nonzero.dim_IntList), count),
    **dict.fromkeys((aten.amax.default, aten.amin.default, aten.max.default, aten.min.default), extreme),
    **dict.fromkeys((aten.any.default, aten.any.dim, aten.any.dims), truth),
    **dict.fromkeys((aten.all.default, aten.all.dim, aten.all.dims), truth),
    **dict.fromkeys(
        (aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default), extreme_with_index
    ),
    **dict.fromkeys((aten.var.correction, aten.std.correction), spread),
    **dict.fromkeys((aten.var_mean.correction, aten.std_mean.correction), spread),
    aten.aminmax.default: extremes,
    aten.linalg_vector_norm.default: vector_norm,
    aten.logsumexp.default: log_sum_exp,
}
