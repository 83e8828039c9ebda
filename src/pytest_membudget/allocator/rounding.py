"""How the caching allocator rounds: requests to blocks, blocks to segments (pure functions).

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

SMALL_SEGMENT_BYTES: Final = 2 * MIB
"""Every segment of the small pool, and its page with expandable segments (``kSmallBuffer``)."""

MIN_LARGE_BYTES: Final = 10 * MIB
"""Large blocks below this share a segment of ``large_segment_size`` (``kMinLargeAlloc``)."""

LARGE_GRANULE_BYTES: Final = 2 * MIB
"""Larger ones get a separate segment, of whole granules (``kRoundLarge``)."""

LARGE_SEGMENT_BYTES: Final = 20 * MIB
"""The default of ``large_segment_size_mb``; the page of the large pool with expandable segments."""

ROUNDUP_INTERVALS: Final = 16
"""Powers of two with separate divisions, from 1 MiB on (``kRoundUpPowerOfTwoIntervals``)."""


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


def segment_bytes(rounded_bytes: int, large_segment_bytes: int = LARGE_SEGMENT_BYTES) -> int:
    """The size of the segment for a block of ``rounded_bytes`` that no cached one can hold."""
    if rounded_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < MIN_LARGE_BYTES:
        return large_segment_bytes
    return round_up(rounded_bytes, LARGE_GRANULE_BYTES)
