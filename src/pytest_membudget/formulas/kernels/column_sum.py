"""Device memory that PyTorch's kernel takes to sum a matrix over its rows, and frees before it returns.

A sum over much input for few outputs is split over thread blocks, which meet in a buffer and count themselves
in semaphores. How it is split: ``setReduceConfig`` in ATen/native/cuda/Reduce.cuh, as in the headers of the
CUDA wheels 2.11.0 to 2.15.0 (the same in all). How an input too large for 32-bit offsets is halved:
``get_dim_to_split`` in aten/src/ATen/TensorIterator.cpp of pytorch/pytorch 2.6.0.
"""

from __future__ import annotations

import functools
import math
from typing import Final

from ...hardware.gpus import Gpu

#: ``maxThreadsPerMultiProcessor`` where it is not 2,048. CUDA C++ Programming Guide 13.0, technical
#: specifications by compute capability.
_THREADS_PER_MULTIPROCESSOR: Final = {
    (7, 5): 1024,
    (8, 6): 1536,
    (8, 7): 1536,
    (8, 9): 1536,
    (12, 0): 1536,
    (12, 1): 1536,
}
_WARP: Final = 32
_BLOCK_THREADS: Final = 512
_FEWEST_VALUES, _MOST_VALUES = 16, 256  # a thread's, where input is split over blocks
_INT32_MAX: Final = 2**31 - 1
_FP32: Final = 4  # partial results; halves are summed in it


@functools.lru_cache(maxsize=4096)
def column_sum(rows: int, columns: int, element_bytes: int, gpu: Gpu) -> tuple[int, ...]:
    """Sizes of the buffer and of the semaphores for ``sum(0)`` of a contiguous matrix.

    Halves too large for 32-bit offsets are first summed in a tensor of fp32.
    """
    if not rows * columns:
        return ()
    sums: tuple[int, ...] = ()
    if not _fits_32_bits(rows, columns, element_bytes):
        sums = (_FP32 * columns,) if element_bytes < _FP32 else ()
    while not _fits_32_bits(rows, columns, element_bytes):
        # the dimension that reaches furthest
        if (rows - 1) * columns > columns - 1:
            rows = math.ceil(rows / 2)
        else:
            columns = math.ceil(columns / 2)
    return *sums, *(_of_one(rows, element_bytes, gpu) if columns == 1 else _of_many(rows, columns, gpu))


def _fits_32_bits(rows: int, columns: int, element_bytes: int) -> bool:
    return 1 + element_bytes * (rows * columns - 1) <= _INT32_MAX


def _of_one(rows: int, element_bytes: int, gpu: Gpu) -> tuple[int, ...]:
    """One column: threads next to each other load its numbers, each several at once (``input_vec_size``)."""
    loads = rows // (8 if element_bytes < _FP32 else 4) if rows >= 128 else rows
    width, height = _block(loads, 1, _BLOCK_THREADS)
    if math.ceil(rows / width) < min(height * 16, _MOST_VALUES):
        return ()
    split = _blocks_an_output(math.ceil(rows / (width * height)), 1, width * height, gpu)
    return () if split == 1 else (_FP32 * split, 4)


def _of_many(rows: int, columns: int, gpu: Gpu) -> tuple[int, ...]:
    """Threads next to each other sum columns next to each other, each up to four."""
    vector = next(count for count in (4, 2, 1) if columns % count == 0)
    width, height = _block(columns // vector, rows, _BLOCK_THREADS // vector)
    if rows < min(height * 16, _MOST_VALUES):
        return ()
    blocks = math.ceil(columns // vector / width)
    split = _blocks_an_output(math.ceil(rows / height), blocks, width * height, gpu)
    return () if split == 1 else (_FP32 * columns * split * width * vector, 4 * blocks)


def _block(wide: int, high: int, threads: int) -> tuple[int, int]:
    """Width and height of a thread block: ``set_block_dimension``."""
    wide, high = (1 << (min(max(size, 1), threads).bit_length() - 1) for size in (wide, high))
    height = min(high, threads // min(wide, _WARP))
    return min(wide, threads // height), height


def _blocks_an_output(values: int, blocks: int, threads: int, gpu: Gpu) -> int:
    """Over how many blocks each output's input is split, where a thread would have ``values``."""
    per_multiprocessor = _THREADS_PER_MULTIPROCESSOR.get(gpu.capability, 2048) // threads
    target = gpu.multiprocessor_count * per_multiprocessor
    if values < _MOST_VALUES or blocks > target:
        return 1
    least, most = math.ceil(values / _MOST_VALUES), math.ceil(values / _FEWEST_VALUES)
    return max(min(math.ceil(target / blocks), most), least)
