"""Device memory that random draws take for themselves and give back before they return.

Read in aten/src/ATen/native/Distributions.cpp, cuda/MultinomialKernel.cu and cuda/Randperm.cu of
pytorch/pytorch 2.6.0. ``normal_``, ``uniform_``, ``bernoulli_`` and ``exponential_`` write into their result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ...hardware.gpus import Gpu
from ...kernels.radix_sort import radix_sort_storage_bytes
from .kernel_layouts import Args, Rule, argument, tensor_bytes
from .kernel_searches import topk
from .kernel_sums import extreme_with_index

aten = torch.ops.aten

_NUMBER_OF_DUPLICATES_BITS = math.log(0.9) * 12  # randperm's chance of two equal keys


def multinomial(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """(self, num_samples, replacement): noise like the input, searched; or copies."""
    weights, count = args[:2]
    if result.numel() == 0:
        return []
    if argument(args, kwargs, 2, "replacement", False) and count > 1:
        return _with_replacement(weights, gpu)
    noise = torch.empty_like(weights, device="meta")
    if count == 1:
        search = extreme_with_index([noise, -1], {}, result, gpu)
    else:
        values = torch.empty(result.shape, dtype=weights.dtype, device="meta")
        search = [tensor_bytes(values), *topk([noise, count], {}, (values, result), gpu)]
    return [1, 1, tensor_bytes(noise), *search]  # two booleans: valid, and not all zero


def _with_replacement(weights: torch.Tensor, gpu: Gpu) -> list[int]:
    """Rows made to add up to one, and their running sums; then samples are searched in these.

    One row's sums are summed up by CUB: its storage, a few KiB, is not counted.
    """
    copy = tensor_bytes(weights)
    return [copy, copy, copy]


def permutation(args: Args, kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> list[int]:
    """``randperm``: a range sorted by random keys, of which there are so many that few are equal."""
    count = result.numel()
    if count == 0:
        return []
    bits = math.ceil(math.log2(count - (6 * count**2 + 1) / _NUMBER_OF_DUPLICATES_BITS))
    key = 4 if bits <= 32 else 8
    number = result.element_size()
    storage = radix_sort_storage_bytes(count, key, number, min(bits, 64), gpu)
    return [count * number, count * key, count * key, storage]


DRAWING_RULES: Final[Mapping[Any, Rule]] = {
    aten.multinomial.default: multinomial,
    aten.randperm.default: permutation,
    aten.randperm.generator: permutation,
}
