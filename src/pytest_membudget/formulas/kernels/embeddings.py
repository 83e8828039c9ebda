"""What the backward of embeddings holds in addition to the table's gradient.

The indices are sorted, and the rows of one index are summed in groups. Read in aten/src/ATen/native/cuda/ of
pytorch/pytorch: Embedding.cu and EmbeddingBackwardKernel.cu (2.6.0, and a version of 2025
for pytorch/pytorch#172454).
"""

from __future__ import annotations

import functools
import math
from typing import Final

from ...hardware.gpus import Gpu
from ...units import round_up
from .radix_sort import sorting_pairs_bytes

_INT64: Final = 8
_FP32: Final = 4  # halves are summed in it
#: Up to so many indices a plain kernel adds up, without sorting.
_UNSORTED: Final = 3072


@functools.lru_cache(maxsize=4096)
def embedding_backward(count: int, rows: int, width: int, element_bytes: int, gpu: Gpu) -> tuple[int, ...]:
    """Sizes of the tensors, for ``count`` indices into a table of ``rows`` by ``width``.

    Indices are sorted with their positions; then there is a row for each group of ten of one index. The
    table's gradient comes after the sort.
    """
    if count <= _UNSORTED:
        return ()
    each = count * _INT64
    storage = sorting_pairs_bytes(count, rows.bit_length(), gpu)
    sorting = [each, each, each, max(0, storage - rows * width * element_bytes)]
    segments = min(count, rows)
    groups = count // 10 + segments
    offsets = [segments * _INT64, segments * _INT64, _INT64, groups * _INT64]
    ordered = [each, each, each, _INT64]  # and how many there are
    lanes = round_up(width, 32)
    blocks = math.ceil(segments * lanes / min(lanes, 1024))
    if blocks < 4 * gpu.multiprocessor_count and groups > 4 * blocks:
        # few rows of large groups are added up in the gradient itself, a half's in a copy in fp32 (since
        # pytorch/pytorch#172454, in the CUDA wheels from 2.11.0 on)
        sums = [groups * _INT64, rows * width * _FP32 if element_bytes < _FP32 else 0]
    else:
        sums = [groups * width * _FP32]
    return tuple(max([*ordered, *offsets, *sums], sorting, [*ordered, each], key=sum))
