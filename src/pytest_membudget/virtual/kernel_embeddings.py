"""Device memory that the backward of embeddings takes for itself and gives back before it returns.

The indices are sorted, and the rows of one index are summed in groups. Read in aten/src/ATen/native/cuda/ of
pytorch/pytorch: Embedding.cu, EmbeddingBackwardKernel.cu and EmbeddingBag.cu (2.6.0, and a version of 2025
for pytorch/pytorch#172454).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ..gpus import Gpu
from .kernel_layouts import (
    INT64,
    Args,
    Rule,
    accumulation_bytes,
    contiguous_copy_bytes,
    first_tensor,
    tensor_bytes,
    up,
)
from .kernel_sorting import radix_sort_storage_bytes

aten = torch.ops.aten

_MAX = 2  # EmbeddingBagMode::MAX


def embedding_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq): over 3,072 indices are sorted."""
    gradient, indices, weights, _, scale = args[:5]
    copies = contiguous_copy_bytes(gradient, indices)
    if indices.numel() <= 3072 and not scale:
        return copies
    return copies + _sorted_sums(gradient, indices, weights, scale, False, result, gpu)


def embedding_bag_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, ...)

    The largest of a bag is written by itself; sums and means sort the indices, however few.
    """
    gradient, indices = args[:2]
    weights, scale, mode = args[5:8]
    copies = contiguous_copy_bytes(gradient, indices)
    if mode == _MAX or indices.numel() == 0:
        return copies
    return copies + _sorted_sums(gradient, indices, weights, scale, True, result, gpu)


def _sorted_sums(
    gradient: torch.Tensor,
    indices: torch.Tensor,
    weights: int,
    scale: bool,
    in_bags: bool,
    result: Any,
    gpu: Gpu,
) -> list[int]:
    """Indices sorted with their positions; then one row for each group of ten of one index."""
    count, number = indices.numel(), indices.element_size()
    each = count * number
    storage = radix_sort_storage_bytes(count, number, number, 8 * number, gpu)
    output = first_tensor(result)
    sorting = [each, each, each, max(0, storage - tensor_bytes(output))]  # the result comes later
    segments = min(count, weights)
    groups = count // 10 + segments
    offsets = [segments * number, segments * number, INT64, groups * number]
    ordered = [each, each, each if scale else 0, each, INT64]  # and how many indices there are
    sums = [groups * gradient.shape[-1] * accumulation_bytes(gradient.dtype)]
    if not in_bags:
        sums = _group_sums(gradient, weights, segments, groups, number, gpu)
    summing = [*ordered, *offsets, *sums]
    return max(summing, sorting, [*ordered, each], key=sum)


def _group_sums(
    gradient: torch.Tensor, weights: int, segments: int, groups: int, index_bytes: int, gpu: Gpu
) -> list[int]:
    """A row in fp32 for each group; few rows of large groups are added up in the gradient itself instead.

    (Since pytorch/pytorch#172454, in the CUDA wheels from 2.11.0 on.) A half's gradient is added up in fp32.
    """
    width = gradient.shape[-1]
    accumulated = accumulation_bytes(gradient.dtype)
    lanes = up(width, 32)
    blocks = math.ceil(segments * lanes / min(lanes, 1024))
    few = blocks < 4 * gpu.multiprocessor_count and groups > 4 * blocks
    if not few or torch.are_deterministic_algorithms_enabled():
        return [groups * width * accumulated]
    sums = weights * width * accumulated if accumulated != gradient.element_size() else 0
    return [groups * index_bytes, sums]


EMBEDDING_RULES: Final[Mapping[Any, Rule]] = {
    aten.embedding_dense_backward.default: embedding_backward,
    aten._embedding_bag_dense_backward.default: embedding_bag_backward,
}
