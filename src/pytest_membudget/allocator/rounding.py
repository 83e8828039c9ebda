"""How the caching allocator rounds requests to blocks (pure functions).

The figures are those of PyTorch's ``c10/core/AllocatorConfig.h`` (read in 2.11, 2.13 and 2.15; before
2.11 they were in ``c10/cuda/CUDACachingAllocator.cpp``); the rules those of ``round_size``,
``roundup_power2_next_division`` and ``get_allocation_size`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..units import MIB, round_up

MIN_BLOCK_BYTES: Final = 512
"""Blocks are multiples of this (``kMinBlockSize``)."""

SMALL_BYTES: Final = 1 * MIB
"""The largest block of the small pool (``kSmallSize``)."""


def block_bytes(size_bytes: int, divisions: Sequence[int] = ()) -> int:
    """The block that a request of ``size_bytes`` > 0 needs.

    ``divisions`` is ``AllocatorSettings.roundup_power2_divisions``: with n > 1 in the request's interval,
    the space between two powers of two is cut into n parts and the request rounded up to one. Sizes off
    either end use the first and the last entry.
    """
    if divisions and size_bytes >= MIN_BLOCK_BYTES:
        interval = size_bytes.bit_length() - MIB.bit_length()
        parts = divisions[min(max(interval, 0), len(divisions) - 1)]
        if parts > 1 and size_bytes > MIN_BLOCK_BYTES * parts:
            power = 1 << (size_bytes.bit_length() - 1)
            return round_up(size_bytes, power // parts)
    return round_up(size_bytes, MIN_BLOCK_BYTES)
