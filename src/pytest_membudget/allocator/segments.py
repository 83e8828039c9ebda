"""Segments: allocated on the device when no cached block fits, freed when the cache is emptied.

``alloc_block`` and ``release_cached_blocks`` of ``c10/cuda/CUDACachingAllocator.cpp`` (2.11).
"""

from __future__ import annotations

from collections.abc import Iterator

from .blocks import Block, BlockState, FreeBlocks, Pool, SegmentState, block_state
from .device_memory import DeviceMemory
from .expandable import ExpandableSegments
from .rounding import MIN_BLOCK_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES, segment_bytes
from .settings import AllocatorSettings


class Segments:
    """The segments of one allocator, and the two pools of free blocks inside them."""

    def __init__(self, device: DeviceMemory, settings: AllocatorSettings) -> None:
        self._device = device
        self._settings = settings
        # the smallest rest that is worth a separate block (should_split): strictly over 1 MiB if large
        large_rest = MIN_BLOCK_BYTES if settings.expandable_segments else SMALL_BYTES + 1
        self.small = Pool(True, MIN_BLOCK_BYTES, SMALL_SEGMENT_BYTES)
        self.large = Pool(False, large_rest, settings.large_segment_size_bytes)
        self.heads: dict[int, Block] = {}  # first blocks by address; expandable segments keep their own
        self.expandable = ExpandableSegments(device)

    def grow(self, home: FreeBlocks, rounded_bytes: int) -> Block:
        """A block of at least ``rounded_bytes`` of new memory, in no list."""
        if self._settings.expandable_segments:
            return self.expandable.extend(home, rounded_bytes)
        size_bytes = segment_bytes(rounded_bytes, self._settings.large_segment_size_bytes)
        self._device.reserve(size_bytes)
        return self.add(self._device.new_address(size_bytes), size_bytes, home)

    def add(self, address: int, size_bytes: int, home: FreeBlocks) -> Block:
        """A segment of one block, in no list; its memory was taken from the device before."""
        block = Block(address, size_bytes, home.stream, home)
        self.heads[address] = block
        return block

    def release_cached(self) -> None:
        """Give back every segment that is free as a whole, and every free page of expandable ones."""
        for pool in (self.large, self.small):
            blocks = pool.free_blocks()
            for block in blocks:
                if block.virtual_segment is None and not block.is_split:
                    self._release(block)
            for block in blocks:
                if block.virtual_segment is not None:
                    self.expandable.unmap(block)

    def states(self) -> list[SegmentState]:
        """Every segment with its blocks, in address order; each mapped stretch of an expandable one."""
        stretches = [list(_chain(head)) for head in self.heads.values()]
        for segment in self.expandable.segments:
            stretches += _mapped_stretches(segment.head)
        return sorted((_state(stretch) for stretch in stretches), key=lambda state: state.address)

    def _release(self, block: Block) -> None:
        assert block.home is not None
        block.home.remove(block)
        del self.heads[block.address]
        self._device.release(block.size_bytes)


def _chain(head: Block) -> Iterator[Block]:
    block: Block | None = head
    while block is not None:
        yield block
        block = block.next


def _mapped_stretches(head: Block) -> list[list[Block]]:
    stretches: list[list[Block]] = []
    for block in _chain(head):
        if not block.mapped:
            continue
        if block.previous is None or not block.previous.mapped:
            stretches.append([])
        stretches[-1].append(block)
    return stretches


def _state(blocks: list[Block]) -> SegmentState:
    first = blocks[0]
    assert first.home is not None
    return SegmentState(
        address=first.address,
        size_bytes=sum(block.size_bytes for block in blocks),
        stream=first.stream,
        is_small=first.home.pool.is_small,
        is_expandable=first.virtual_segment is not None,
        blocks=tuple(BlockState(b.address, b.size_bytes, b.requested_bytes, block_state(b)) for b in blocks),
    )
