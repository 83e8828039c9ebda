"""Device memory that PyTorch's sorting kernels take for themselves and give back before they return.

Indexing's backward sorts the indices first. Read in aten/src/ATen/native/cuda/ of pytorch/pytorch: Sort.cpp,
Sort.cu, SortStable.cu and Indexing.cu (2.6.0 and versions of 2025), Sort.h and ATen/cuda/cub.cuh in the CUDA
wheels 2.11.0 and 2.15.0. CUB's storage: cub/device/dispatch/dispatch_radix_sort.cuh and
tuning/tuning_radix_sort.cuh of nvidia-cuda-cccl 13.0.85.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...kernels.radix_sort import aligned_bytes, radix_sort_storage_bytes
from .kernel_layouts import INT64, Args, Rule, argument, contiguous_copy_bytes, is_dense, tensor_bytes

aten = torch.ops.aten


def index_put(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """Adding up at indices sorts them: their positions, sorted, their order, a range, and CUB's storage.

    Masks make a number of indices that is not known before the kernel runs: not counted.
    """
    tensor, indices, values = args[:3]
    given = [index for index in indices if index is not None]
    adds = argument(args, kwargs, 3, "accumulate", False) or torch.are_deterministic_algorithms_enabled()
    if not adds or not given or any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return []
    count = math.prod(torch.broadcast_shapes(*(index.shape for index in given)))
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    others = math.prod(size for dim, size in enumerate(tensor.shape) if dim not in dims)
    if not count or not others:
        return []
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    slice_size = math.prod(tensor.shape[dims[-1] + 1 :]) if adjacent else others
    copies = contiguous_copy_bytes(tensor)
    if values.numel() != count * others or not values.is_contiguous():
        copies.append(count * others * values.element_size())
    if not adjacent:  # the indexed dimensions are moved to the front
        copies.append(tensor_bytes(tensor))
    bits = max(1, ((tensor.numel() - 1) // slice_size).bit_length())
    storage = radix_sort_storage_bytes(count, INT64, INT64, bits, gpu)
    return [*copies, *4 * [count * INT64], storage]


def sort(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``sort.default`` (self, dim, descending) and ``sort.stable`` (self, stable=, dim=, descending=)."""
    dim = argument(args, kwargs, 1, "dim", -1)
    return sort_temporaries(args[0], dim, result[0], result[1], gpu)


def sort_temporaries(
    tensor: torch.Tensor, dim: int, values: torch.Tensor, indices: torch.Tensor, gpu: Gpu
) -> list[int]:
    """In place up to 4,096 numbers; else by CUB, in an order where ``dim`` is the fastest."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        return []
    if tensor.shape[dim] <= 4096:
        return [tensor.shape[dim] * INT64]
    in_order = is_dense(tensor) and tensor.stride(dim) == 1
    copies = [] if in_order else [tensor_bytes(tensor)]
    fits = in_order or dim in (-1, tensor.dim() - 1)
    strides = tensor.stride() if in_order else torch.empty(tensor.shape, device="meta").stride()
    if not fits or values.stride() != strides:
        copies.append(tensor_bytes(values))
    if not fits or indices.stride() != strides:
        copies.append(tensor_bytes(indices))
    return copies + _segmented(tensor.numel(), tensor.shape[dim], tensor.element_size(), gpu)


def _segmented(count: int, length: int, key: int, gpu: Gpu) -> list[int]:
    """``launch_stable_sort_kernel``: segments one by one, all at once twice, or by CUB's segmented sort."""
    segments = count // length
    if segments == 1 or length >= 1_000_000:
        return [length * INT64, radix_sort_storage_bytes(length, key, INT64, 8 * key, gpu)]
    if segments >= 128:
        return [count * INT64, aligned_bytes([count * key, count * INT64])]
    by_value = count * key + radix_sort_storage_bytes(count, key, INT64, 8 * key, gpu)
    by_segment = radix_sort_storage_bytes(count, INT64, 0, (segments - 1).bit_length(), gpu)
    last = [count * key, by_value - count * key] if by_value > by_segment else [by_segment]
    return [count * INT64, count * INT64, *last]


SORTING_RULES: Final[Mapping[Any, Rule]] = {
    aten.index_put.default: index_put,
    aten.index_put_.default: index_put,
    aten._index_put_impl_.default: index_put,
    aten.sort.default: sort,
    aten.sort.stable: sort,
}
