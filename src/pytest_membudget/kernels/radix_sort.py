"""CUB's storage for radix sorts.

Read in cub/device/dispatch/dispatch_radix_sort.cuh and tuning/tuning_radix_sort.cuh of nvidia-cuda-cccl
13.0.85.
"""

from __future__ import annotations

import math
from typing import Final

from ..hardware.gpus import Gpu
from ..units import round_up

_INT64: Final = 8
_ALIGNMENT = 256  # of each part of CUB's storage; the whole has room to be aligned itself
_SHARED_BYTES = 48 * 1024
_PORTION = 2**28 - 1  # one launch sorts no more than this, in whole tiles
_DIGITS, _DIGIT_BITS = 256, 8


def radix_sort_storage_bytes(count: int, key: int, value: int, bits: int, gpu: Gpu) -> int:
    """``cub::DeviceRadixSort`` of ``count`` keys with values (0: none) of that many bytes, by ``bits`` bits.

    A lower bound for keys under 4 bytes before capability 9.0, where it depends on the kernel's occupancy.
    """
    widest = max(key, value, 1)
    if count <= math.prod(_scaled(256, 19, widest)):
        return 1
    passes = math.ceil(bits / _DIGIT_BITS)
    spare = [count * key, count * value] if passes > 1 else []
    if key < 4 and gpu.capability < (9, 0):
        return aligned_bytes([count * key, count * value])
    tile = math.prod(_scaled(*_tile(key, value, gpu), widest))
    portion = _PORTION // tile * tile
    portions = math.ceil(count / portion)
    bins = portions * passes * _DIGITS * _INT64
    lookback = math.ceil(min(count, portion) / tile) * _DIGITS * 4
    return aligned_bytes([bins, lookback, *spare, portions * passes * 4])


def _tile(key: int, value: int, gpu: Gpu) -> tuple[int, int]:
    """Threads, and 4-byte numbers a thread, of ``OnesweepPolicy`` with 64-bit offsets."""
    if gpu.capability >= (9, 0):
        if key < 4:
            return (384, 18) if key == 1 else (512, 23)
        if key == 4:
            return 384, 19 if not value else 17 if value < _INT64 else 29
        return 384, 30 if value < _INT64 else 24
    if gpu.capability >= (8, 0):
        return 384, 17 if key == 4 and value else 21
    return 256, 46 if key == 4 and value == 4 else 23


def _scaled(threads: int, items: int, widest: int) -> tuple[int, int]:
    """``RegBoundScaling``: fewer numbers a thread where they are wider than 4 bytes."""
    items = max(1, items * 4 // max(4, widest))
    return min(threads, round_up(math.ceil(_SHARED_BYTES // (widest * items)), 32)), items


def aligned_bytes(parts: list[int]) -> int:
    """CUB's storage of several parts, with room for its own alignment."""
    return sum(round_up(part, _ALIGNMENT) for part in parts) + _ALIGNMENT - 1
