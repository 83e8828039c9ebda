"""Device memory that the backward of embeddings takes for itself and gives back before it returns.

The rule, with its sources, is in ``kernel_memory.embeddings``; here are the operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...kernels import embeddings
from ...kernels.embeddings import UNSORTED, Lookup
from .kernel_layouts import (
    Args,
    Rule,
    accumulation_bytes,
    contiguous_copy_bytes,
    first_tensor,
    tensor_bytes,
)

aten = torch.ops.aten

_MAX = 2  # EmbeddingBagMode::MAX


def embedding_backward(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq): over 3,072 indices are sorted."""
    gradient, indices, weights, _, scale = args[:5]
    copies = contiguous_copy_bytes(gradient, indices)
    if indices.numel() <= UNSORTED and not scale:
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
    lookup = Lookup(
        count=indices.numel(),
        rows=weights,
        width=gradient.shape[-1],
        element_bytes=gradient.element_size(),
        accumulated_bytes=accumulation_bytes(gradient.dtype),
        index_bytes=indices.element_size(),
        scales_by_frequency=scale,
        in_bags=in_bags,
        is_deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    return embeddings.sorted_sums(lookup, tensor_bytes(first_tensor(result)), gpu)


EMBEDDING_RULES: Final[Mapping[Any, Rule]] = {
    aten.embedding_dense_backward.default: embedding_backward,
    aten._embedding_bag_dense_backward.default: embedding_bag_backward,
}
