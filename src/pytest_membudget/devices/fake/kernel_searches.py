"""Device memory that PyTorch's searches take for themselves and give back before they return.

``topk``: aten/src/ATen/native/cuda/TensorTopK.cu as of the kernels ``computeBlockDigitCounts`` and
``computeDigitCumSum`` of pytorch/pytorch, whose names are in libtorch_cuda.so of the CUDA wheels 2.11.0 and
2.15.0 (2.6.0 has other kernels and one buffer less), and TensorTopK.cpp of 2.6.0. The others: Sorting.cpp,
TensorModeKernel.cpp and Bucketization.cu of 2.6.0. CUB's storage: cub/agent/single_pass_scan_operators.cuh
and cub/device/dispatch/tuning/tuning_scan_by_key.cuh of nvidia-cuda-cccl 13.0.85.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...units import round_up
from .kernel_layouts import (
    INT64,
    Args,
    Rule,
    argument,
    contiguous_copy_bytes,
    contiguous_inputs,
    tensor_bytes,
)
from .kernel_sorting import sort_temporaries

aten = torch.ops.aten

_THREADS = 256  # BLOCK_THREADS
_DIGITS = 256  # RADIX_DIGITS
_FEWEST_ITEMS, _MOST_ITEMS = 4, 64  # a thread's
_REGISTERS = 65536  # of a multiprocessor: CUDA C++ Programming Guide 13.0, every capability from 5.0 on
_REGISTERS_A_THREAD = 40
_SMALL_SORT = 4096

#: Rows up to which a search is split over blocks, and the row length from which it is
#: (``should_use_multiblock``; strictly below 200 and 800 rows).
_MULTIBLOCK = ((20, 20_000), (40, 10_000), (80, 8_000), (199, 5_000), (799, 3_000), (4_000, 800))
_MULTIBLOCK_BEYOND = 400


def topk(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, k, dim, largest, sorted): the search; then more than 4,096 results a row are sorted."""
    tensor, (values, indices) = args[0], result
    if values.numel() == 0:
        return []
    dim = argument(args, kwargs, 2, "dim", -1)
    search = [*contiguous_copy_bytes(tensor), *_search(tensor, dim, gpu)]
    return max(
        search, _ordering(values, indices, dim, argument(args, kwargs, 4, "sorted", True), gpu), key=sum
    )


def _search(tensor: torch.Tensor, dim: int, gpu: Gpu) -> list[int]:
    length = tensor.shape[dim] if tensor.dim() else 1
    rows = tensor.numel() // length
    if length < next((least for most, least in _MULTIBLOCK if rows <= most), _MULTIBLOCK_BEYOND):
        return []
    blocks_at_once = gpu.multiprocessor_count * (_REGISTERS // (_REGISTERS_A_THREAD * _THREADS))
    items = math.ceil(tensor.numel() / (blocks_at_once * _THREADS))
    items = max(_FEWEST_ITEMS, min(items, _MOST_ITEMS))
    blocks = rows * math.ceil(length / (items * _THREADS))
    word = 8 if tensor.element_size() == 8 else 4  # TopKTypeConfig's RadixType
    return [
        rows * tensor.element_size(),  # the values sought
        2 * rows * 4,  # how many are sought still, before and after a pass
        2 * rows * word,  # their digits so far
        blocks * _DIGITS * 2,
        rows * _DIGITS * 4,
        *2 * [blocks * 4],
        scan_by_key_storage_bytes(blocks, gpu),
    ]


def scan_by_key_storage_bytes(count: int, gpu: Gpu) -> int:
    """``cub::DeviceScan::InclusiveSumByKey`` of ``count`` 4-byte numbers with 4-byte keys.

    Below capability 8.0 tiles are smaller: 20 bytes more for each 2,000 numbers or so.
    """
    tiles = math.ceil(count / (288 * 14 if gpu.capability >= (9, 0) else 256 * 15))
    states = round_up(16 * (32 + tiles), 256) + 255
    return round_up(states, 256) + round_up(4 * (tiles + 1), 256) + 255


def _ordering(values: torch.Tensor, indices: torch.Tensor, dim: int, is_sorted: bool, gpu: Gpu) -> list[int]:
    if values.dim() == 0 or not is_sorted or values.numel() == 1 or values.shape[dim] <= _SMALL_SORT:
        return []
    held = [tensor_bytes(indices), tensor_bytes(values)]
    sorting = sort_temporaries(values, dim, values, indices, gpu)
    return held + (sorting if sum(sorting) > tensor_bytes(indices) else [tensor_bytes(indices)])


def median(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``median`` and ``nanmedian`` of everything: all of it sorted, with its positions."""
    tensor = args[0]
    if tensor.numel() == 0:
        return []
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype, device="meta")
    order = torch.empty(tensor.numel(), dtype=torch.int64, device="meta")
    sorting = sort_temporaries(flat, 0, flat, order, gpu)
    return [*contiguous_copy_bytes(tensor), tensor_bytes(tensor), INT64 * tensor.numel(), *sorting]


def mode(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, dim): a contiguous copy with ``dim`` last; rows over 2,048 are sorted in a copy (see bounds)."""
    tensor, dim = args[0], argument(args, kwargs, 1, "dim", -1)
    if tensor.dim() == 0 or tensor.shape[dim] == 1 or tensor.numel() == 0:
        return []
    if tensor.shape[dim] > 2048:
        return [tensor_bytes(tensor)]
    return contiguous_copy_bytes(tensor.transpose(dim, -1))


def places(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``searchsorted`` and ``bucketize``: boundaries and values, in one order or the other, of one type."""
    tensors = [tensor for tensor in args[:2] if isinstance(tensor, torch.Tensor)]
    if len(tensors) < 2:
        return []
    common = torch.result_type(*tensors)
    sizes = contiguous_copy_bytes(*tensors)
    return sizes + [0 if one.dtype == common else one.numel() * common.itemsize for one in tensors]


SEARCH_RULES: Final[Mapping[Any, Rule]] = {
    aten.topk.default: topk,
    aten.median.default: median,
    aten.nanmedian.default: median,
    aten.median.dim: contiguous_inputs(0),
    aten.nanmedian.dim: contiguous_inputs(0),
    aten.kthvalue.default: contiguous_inputs(0),
    aten.mode.default: mode,
    aten.searchsorted.Tensor: places,
    aten.bucketize.Tensor: places,
}
