"""Expandable segments: address space first, memory behind it page by page.

``ExpandableSegment``, ``find_expandable_block``, ``map_block``, ``try_allocate_expandable_block`` and
``unmap_block`` of ``c10/cuda/CUDACachingAllocator.cpp`` (2.11). A segment's address space is larger than
the device, so in practice each pool and stream has one segment, which grows at its end; pages that were
unmapped leave holes, and the lowest hole that is large enough is filled first.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import Final

from ..units import round_up
from .blocks import Block, FreeBlocks, VirtualSegment, absorb_next, split_off
from .device_memory import DeviceMemory

ADDRESS_SPACE_BYTES: Final = 2**43
"""A segment's address space: 8 TiB, more than any device has."""

_address: Final = attrgetter("address")


class ExpandableSegments:
    """All the expandable segments of one allocator."""

    def __init__(self, device: DeviceMemory) -> None:
        self._device = device
        self.segments: list[VirtualSegment] = []

    def extend(self, home: FreeBlocks, size_bytes: int) -> Block:
        """A block of at least ``size_bytes``, of mapped memory and in no list."""
        block = self._roomy_block(home, size_bytes)
        if not block.mapped:
            block = self._map(block, min(size_bytes, block.size_bytes))
        while block.size_bytes < size_bytes:
            unmapped = block.next
            assert unmapped is not None
            block = self._map(unmapped, min(size_bytes - block.size_bytes, unmapped.size_bytes))
        home.remove(block)
        return block

    def unmap(self, block: Block) -> None:
        """Return the whole pages inside a free block to the device; its ends stay free blocks."""
        segment, home = block.virtual_segment, block.home
        assert segment is not None
        assert home is not None
        page_bytes, offset = home.pool.page_bytes, block.address - segment.address
        begin = segment.address + round_up(offset, page_bytes)
        end = segment.address + (offset + block.size_bytes) // page_bytes * page_bytes
        if begin >= end:
            return
        home.remove(block)
        if begin > block.address:
            front = block
            block = split_off(front, begin - front.address)
            home.add(front)
        if block.address + block.size_bytes > end:
            home.add(split_off(block, end - begin))
        block.mapped = False
        self._device.release(end - begin)
        self._settle_unmapped(block, home)

    def _reserved_space(self, home: FreeBlocks, least_bytes: int = 0) -> Block:
        """The unmapped block that is all of a new segment, of ``least_bytes`` or more."""
        size_bytes = round_up(max(ADDRESS_SPACE_BYTES, least_bytes), home.pool.page_bytes)
        address = self._device.new_address(size_bytes)
        block = Block(address, size_bytes, home.stream, home)
        block.mapped = False
        segment = block.virtual_segment = VirtualSegment(address, block)
        insort(home.unmapped, block, key=_address)
        self.segments.append(segment)
        return block

    def _roomy_block(self, home: FreeBlocks, size_bytes: int) -> Block:
        """The lowest free or unmapped block from which ``size_bytes`` in a row are free or unmapped."""
        for block in home.unmapped:
            before = block.previous
            first = before if before is not None and before.free else block
            if _room_from(first, size_bytes):
                return first
        return self._reserved_space(home, size_bytes)  # no block spans two segments

    def _map(self, block: Block, size_bytes: int) -> Block:
        """Map memory to the first pages of an unmapped block; the free block that results."""
        home = block.home
        assert home is not None
        mapped_bytes = round_up(size_bytes, home.pool.page_bytes)
        self._device.reserve(mapped_bytes)
        home.unmapped.remove(block)
        if mapped_bytes < block.size_bytes:
            rest = split_off(block, mapped_bytes)
            insort(home.unmapped, rest, key=_address)
        block.mapped = True
        before = block.previous
        merged = before if before is not None and before.free else block
        home.add_merged(block)
        return merged

    def _settle_unmapped(self, block: Block, home: FreeBlocks) -> None:
        """Merge a newly unmapped block with its unmapped neighbours; forget a segment with nothing left."""
        follower, before = block.next, block.previous
        if follower is not None and not follower.mapped:
            home.unmapped.remove(follower)
            absorb_next(block)
        if before is not None and not before.mapped:
            absorb_next(before)
            block = before
        else:
            insort(home.unmapped, block, key=_address)
        if not block.is_split and block.virtual_segment is not None:
            home.unmapped.remove(block)
            self.segments.remove(block.virtual_segment)


def growable_bytes(block: Block) -> int:
    """The size that best fit compares: a free block plus the unmapped room right behind it."""
    follower = block.next
    return block.size_bytes + (0 if follower is None or follower.mapped else follower.size_bytes)


def fit_with_room_to_grow(home: FreeBlocks, size_bytes: int) -> Block | None:
    """The best fit among expandable blocks: a block at the segment's end counts as large as it can grow.

    From the smallest block that fits, the search moves on while the next one can grow less
    (``get_free_block``).
    """
    best: Block | None = None
    for block in home.from_fit(size_bytes):
        if best is None or (
            best.virtual_segment is not None and growable_bytes(block) < growable_bytes(best)
        ):
            best = block
        else:
            break
    return best


def _room_from(block: Block | None, size_bytes: int) -> bool:
    found = 0
    while found < size_bytes and block is not None and (block.free or not block.mapped):
        found += block.size_bytes
        block = block.next
    return found >= size_bytes
