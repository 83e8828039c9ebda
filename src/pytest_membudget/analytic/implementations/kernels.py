"""Device memory that CUDA kernels of PyTorch take for themselves, by shape: what stands beside their tensors.

The rules are those of ``aten/src/ATen/native/cuda/Reduce.cuh`` (``setReduceConfig``), ``Embedding.cu`` and
``EmbeddingBackwardKernel.cu`` as of the CUDA wheels 2.11.0 to 2.15.0 (pytorch/pytorch), for the shapes that
transformers' layers have.
"""

from __future__ import annotations

import math
from typing import Final

from ...gpus import Gpu

_FP32: Final = 4
_INT64: Final = 8
_WARP: Final = 32
_BLOCK_THREADS: Final = 512
_FEWEST_VALUES, _MOST_VALUES = 16, 256
#: ``maxThreadsPerMultiProcessor`` where it is not 2,048 (CUDA C++ Programming Guide 13.0).
_THREADS: Final = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536, (12, 1): 1536}


def column_sum_bytes(rows: int, columns: int, gpu: Gpu) -> int:
    """To sum a matrix over its rows: blocks of rows meet in an fp32 buffer, with a semaphore each."""
    if not rows or not columns:
        return 0
    vector = next(size for size in (4, 2, 1) if columns % size == 0)
    wide = columns // vector
    width, height = _block(wide, rows, _BLOCK_THREADS // vector)
    if rows < min(height * 16, _MOST_VALUES):
        return 0
    blocks = math.ceil(wide / width)
    split = _split(math.ceil(rows / height), blocks, width * height, gpu)
    if split == 1:
        return 0
    return _FP32 * columns * split * width * vector + 4 * blocks


def _block(wide: int, high: int, threads: int) -> tuple[int, int]:
    wide, high = (1 << (min(max(size, 1), threads).bit_length() - 1) for size in (wide, high))
    height = min(high, threads // min(wide, _WARP))
    return min(wide, threads // height), height


def _split(values: int, blocks: int, threads: int, gpu: Gpu) -> int:
    target = gpu.multiprocessor_count * (_THREADS.get(gpu.capability, 2048) // threads)
    if values < _MOST_VALUES or blocks > target:
        return 1
    least, most = math.ceil(values / _MOST_VALUES), math.ceil(values / _FEWEST_VALUES)
    return max(min(math.ceil(target / blocks), most), least)


def embedding_backward_bytes(tokens: int, rows: int, width: int, element_bytes: int, gpu: Gpu) -> int:
    """Beside the gradient of a table of ``rows``: over 3,072 tokens are sorted, and summed in groups of ten.

    ``embedding_backward_cuda_kernel``; the sort's own storage is less than the sums and gone before them.
    """
    if tokens <= 3072:
        return 0
    segments = min(tokens, rows)
    groups = tokens // 10 + segments
    ordered = 3 * tokens * _INT64 + _INT64
    offsets = (2 * segments + groups) * _INT64 + _INT64
    lanes = _up(width, _WARP)
    blocks = math.ceil(segments * lanes / min(lanes, 1024))
    if blocks < 4 * gpu.multiprocessor_count and groups > 4 * blocks:
        sums = groups * _INT64 + (rows * width * _FP32 if element_bytes != _FP32 else 0)
    else:
        sums = groups * width * _FP32
    return ordered + offsets + sums


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
