"""What the backward of embeddings holds in addition to the table's gradient.

The indices are sorted, and the rows of one index are summed in groups. Read in aten/src/ATen/native/cuda/ of
pytorch/pytorch: Embedding.cu and EmbeddingBackwardKernel.cu (2.6.0, and a version of 2025
for pytorch/pytorch#172454).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ..hardware.gpus import Gpu
from ..units import round_up
from .radix_sort import radix_sort_storage_bytes

_INT64: Final = 8
#: Up to so many indices a plain kernel adds up, without sorting.
UNSORTED: Final = 3072


@dataclass(frozen=True, slots=True)
class Lookup:
    """``count`` indices into a table of ``rows`` by ``width``."""

    count: int
    rows: int
    width: int
    element_bytes: int
    accumulated_bytes: int = 4
    """A number of ``acc_type``: halves are summed in fp32."""


def sorted_sums(lookup: Lookup, result_bytes: int, gpu: Gpu) -> list[int]:
    """Indices sorted with their positions; then one row for each group of ten of one index.

    ``result_bytes``: of the table's gradient, which comes after the sort.
    """
    each = lookup.count * _INT64
    storage = radix_sort_storage_bytes(lookup.count, _INT64, _INT64, lookup.rows.bit_length(), gpu)
    sorting = [each, each, each, max(0, storage - result_bytes)]
    segments = min(lookup.count, lookup.rows)
    groups = lookup.count // 10 + segments
    offsets = [segments * _INT64, segments * _INT64, _INT64, groups * _INT64]
    ordered = [each, each, each, _INT64]  # and how many there are
    sums = _group_sums(lookup, segments, groups, gpu)
    return max([*ordered, *offsets, *sums], sorting, [*ordered, each], key=sum)


def _group_sums(lookup: Lookup, segments: int, groups: int, gpu: Gpu) -> list[int]:
    """A row in fp32 for each group; few rows of large groups are added up in the gradient itself instead.

    (Since pytorch/pytorch#172454, in the CUDA wheels from 2.11.0 on.) A half's gradient is added up in fp32.
    """
    lanes = round_up(lookup.width, 32)
    blocks = math.ceil(segments * lanes / min(lanes, 1024))
    few = blocks < 4 * gpu.multiprocessor_count and groups > 4 * blocks
    if not few:
        return [groups * lookup.width * lookup.accumulated_bytes]
    is_wider = lookup.accumulated_bytes != lookup.element_bytes
    sums = lookup.rows * lookup.width * lookup.accumulated_bytes if is_wider else 0
    return [groups * _INT64, sums]
