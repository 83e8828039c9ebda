"""Which free memory a request gets, and what is reserved for one that fits nowhere.

As in ``c10/cuda/CUDACachingAllocator.cpp`` (2.13): of the free memory of its stream and of its kind, small
or large, the smallest that holds it, of several the oldest (``get_free_block``). Left out is what formulas do
not ask: other settings than expandable segments, pools of CUDA graphs, an emptied cache, a card that is full.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final, NamedTuple

from ...allocator.block_map import BlockMap
from ...allocator.rounding import LARGE_SEGMENT_BYTES, MIN_LARGE_BYTES, SMALL_BYTES, block_bytes
from ...allocator.settings import AllocatorSettings
from ...units import MIB, round_up

SMALL_SEGMENT_BYTES: Final = 2 * MIB
"""Every segment of the small pool, and its page with expandable segments (``kSmallBuffer``)."""

LARGE_GRANULE_BYTES: Final = 2 * MIB
"""Larger ones get a separate segment, of whole granules (``kRoundLarge``)."""


class Place(NamedTuple):
    """A block that was fitted; ``size_bytes``: with its rounding."""

    space: _Space
    address: int
    size_bytes: int


class Fitting:
    """One device's memory; it reserves more and never gives back."""

    def __init__(self, *, expandable: bool = False) -> None:
        self._settings = AllocatorSettings(expandable_segments=expandable)
        self._spaces: dict[tuple[int, bool], _Space] = {}

    @property
    def reserved_bytes(self) -> int:
        """What all segments come to."""
        return sum(space.end for space in self._spaces.values())

    def place(self, size_bytes: int, stream: int = 0) -> Place:
        """Memory for ``size_bytes``, more than 0."""
        rounded = block_bytes(size_bytes)
        key = stream, rounded <= SMALL_BYTES
        if key not in self._spaces:
            self._spaces[key] = _Space(self._settings)
        return self._spaces[key].place(rounded)

    def free(self, place: Place) -> None:
        """The memory is free for the next request of its stream and kind."""
        place.space.free(place.address)


class _Space:
    """The segments for small or large blocks of one stream, one behind the other up to ``end``."""

    def __init__(self, settings: AllocatorSettings) -> None:
        self.end = 0
        self._memory = BlockMap(settings)
        self._expandable = settings.expandable_segments
        #: size and start of what has been free, in order; of some of it no more
        self._fits: list[tuple[int, int]] = []

    def place(self, rounded_bytes: int) -> Place:
        start = self._best_fit(rounded_bytes)
        if start is None:
            start = self._grow(rounded_bytes)
        end = self._memory.free_end(start)
        size_bytes = self._memory.allocate(start, rounded_bytes)
        if end is not None and start + size_bytes < end:
            insort(self._fits, (end - start - size_bytes, start + size_bytes))
        return Place(self, start, size_bytes)

    def free(self, address: int) -> None:
        start = self._memory.free(address)
        insort(self._fits, ((self._memory.free_end(start) or start) - start, start))

    def _best_fit(self, rounded_bytes: int) -> int | None:
        """The start of the smallest stretch; what a segment can grow from counts as the largest."""
        number, last = bisect_left(self._fits, (rounded_bytes, 0)), None
        while number < len(self._fits):
            size_bytes, start = self._fits[number]
            if self._memory.free_end(start) != start + size_bytes:
                del self._fits[number]
            elif self._expandable and start + size_bytes == self.end:
                last = start
                number += 1
            else:
                return start
        return last

    def _grow(self, rounded_bytes: int) -> int:
        """Reserve memory; where the block begins."""
        start = self.end
        if not self._expandable:
            size_bytes = segment_bytes(rounded_bytes)
            self._memory.change("segment_alloc", self.end, size_bytes)
        else:
            page_bytes = SMALL_SEGMENT_BYTES if rounded_bytes <= SMALL_BYTES else LARGE_SEGMENT_BYTES
            last = self._memory.free_start(self.end)
            start = self.end if last is None else last
            size_bytes = round_up(rounded_bytes - (self.end - start), page_bytes)
            self._memory.change("segment_map", self.end, size_bytes)
        self.end += size_bytes
        return start


def segment_bytes(rounded_bytes: int) -> int:
    """The size of the segment for a block of ``rounded_bytes`` that no cached one can hold."""
    if rounded_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return round_up(rounded_bytes, LARGE_GRANULE_BYTES)
