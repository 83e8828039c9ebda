"""Device memory that CUDA kernels of PyTorch take for themselves, for the shapes that models' layers have."""

from __future__ import annotations

import functools
from typing import Final

from ...hardware.gpus import Gpu
from ...kernels.embeddings import UNSORTED, Lookup, sorted_sums
from ...kernels.reductions import Layout, NumberTypes, reduction_buffers

_FP32: Final = 4


@functools.lru_cache(maxsize=4096)
def column_sum(rows: int, columns: int, element_bytes: int, gpu: Gpu) -> tuple[int, ...]:
    """What it takes to sum a matrix over its rows (``sum(0)``): halves in fp32, eight at a time."""
    is_half = element_bytes < _FP32
    numbers = NumberTypes(
        element_bytes, _FP32, element_bytes, vector=8 if is_half else 4, sums_in_output=not is_half
    )
    return tuple(reduction_buffers(Layout((rows, columns), (columns, 1)), frozenset({0}), numbers, gpu))


@functools.lru_cache(maxsize=4096)
def embedding_backward(tokens: int, rows: int, width: int, element_bytes: int, gpu: Gpu) -> tuple[int, ...]:
    """The tensors in addition to the gradient of a table of ``rows`` by ``width``."""
    if tokens <= UNSORTED:
        return ()
    lookup = Lookup(tokens, rows, width, element_bytes)
    return tuple(sorted_sums(lookup, rows * width * element_bytes, gpu))
