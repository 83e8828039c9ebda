"""CUB's storage for radix sorts of int64 with int64.

Read in cub/device/dispatch/dispatch_radix_sort.cuh and tuning/tuning_radix_sort.cuh of nvidia-cuda-cccl
13.0.85.
"""

from __future__ import annotations

import math
from typing import Final

from ...hardware.gpus import Gpu
from ...units import round_up

_INT64: Final = 8
_ALIGNMENT: Final = 256  # of each part of CUB's storage; the whole has room to be aligned itself
_SHARED_BYTES: Final = 48 * 1024
_PORTION: Final = 2**28 - 1  # one launch sorts no more than this, in whole tiles
_DIGITS, _DIGIT_BITS = 256, 8


def sorting_pairs_bytes(count: int, bits: int, gpu: Gpu) -> int:
    """``cub::DeviceRadixSort`` of ``count`` pairs by ``bits`` bits of their keys."""
    if count <= _scaled(256, 19):
        return 1
    passes = math.ceil(bits / _DIGIT_BITS)
    spare = [count * _INT64] * 2 if passes > 1 else []
    tile = _scaled(*_tile(gpu))
    portion = _PORTION // tile * tile
    portions = math.ceil(count / portion)
    bins = portions * passes * _DIGITS * _INT64
    lookback = math.ceil(min(count, portion) / tile) * _DIGITS * 4
    parts = [bins, lookback, *spare, portions * passes * 4]
    return sum(round_up(part, _ALIGNMENT) for part in parts) + _ALIGNMENT - 1


def _tile(gpu: Gpu) -> tuple[int, int]:
    """Threads, and 4-byte numbers a thread, of ``OnesweepPolicy`` with 64-bit offsets."""
    if gpu.capability >= (9, 0):
        return 384, 24
    return (384, 21) if gpu.capability >= (8, 0) else (256, 23)


def _scaled(threads: int, items: int) -> int:
    """Pairs of a tile, by ``RegBoundScaling``: fewer a thread, as they are wider than 4 bytes."""
    items = max(1, items * 4 // _INT64)
    return min(threads, round_up(math.ceil(_SHARED_BYTES // (_INT64 * items)), 32)) * items
