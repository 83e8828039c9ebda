"""Blocks, the pools of free ones, and the values that describe them.

PyTorch keeps one ordered set of free blocks a pool, sorted by stream, size, address
(``BlockComparatorSize`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11) and never crosses streams; here each
pool and stream has a list.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

ACTIVE_ALLOCATED: Final = "active_allocated"
"""In use. The states are spelled as ``torch.cuda.memory._snapshot`` spells them."""

ACTIVE_PENDING_FREE: Final = "active_pending_free"
"""Freed, but another stream may still use it."""

INACTIVE: Final = "inactive"
"""Free for the next request of its pool and stream."""


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """A range of device memory that a request was given, or that waits for one.

    ``size_bytes`` is what counts as allocated: the request rounded up, plus a rest that was not split
    off. Do not use a block after freeing it: it may serve another request.
    """

    address: int
    size_bytes: int
    stream: int
    home: FreeBlocks | None  # the list it is in when it is free
    requested_bytes: int = 0
    allocated: bool = False  # in use
    free: bool = False  # in its home
    mapped: bool = True  # False for address space of an expandable segment with no memory behind it
    previous: Block | None = None
    next: Block | None = None
    virtual_segment: VirtualSegment | None = None

    def __repr__(self) -> str:
        state = block_state(self) if self.mapped else "unmapped"
        return f"Block(address={self.address:#x}, size_bytes={self.size_bytes}, {state})"

    @property
    def is_split(self) -> bool:
        """Whether the segment holds more than this block."""
        return self.previous is not None or self.next is not None


def block_state(block: Block) -> str:
    """The word that a snapshot has for a mapped ``block``."""
    return ACTIVE_ALLOCATED if block.allocated else INACTIVE


def split_off(block: Block, size_bytes: int) -> Block:
    """Cut ``block`` to ``size_bytes``; the rest behind it, mapped or not as the block, in no list."""
    rest = Block(block.address + size_bytes, block.size_bytes - size_bytes, block.stream, block.home)
    rest.mapped = block.mapped
    rest.virtual_segment = block.virtual_segment
    rest.previous, rest.next = block, block.next
    if block.next is not None:
        block.next.previous = rest
    block.size_bytes, block.next = size_bytes, rest
    return rest


def absorb_next(block: Block) -> None:
    """Merge the block behind ``block`` into it."""
    gone = block.next
    assert gone is not None
    block.size_bytes += gone.size_bytes
    block.next = gone.next
    if gone.next is not None:
        gone.next.previous = block


@dataclass(frozen=True, slots=True)
class BlockState:
    """One block of a segment: its address, its size, the size requested, and one of the three states."""

    address: int
    size_bytes: int
    requested_bytes: int
    state: str


@dataclass(frozen=True, slots=True)
class SegmentState:
    """One segment (or one mapped stretch of an expandable segment) and its blocks in address order."""

    address: int
    size_bytes: int
    stream: int
    is_small: bool
    is_expandable: bool
    blocks: tuple[BlockState, ...] = ()

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size_bytes


@dataclass(slots=True, eq=False)
class VirtualSegment:
    """One stretch of address space, cut into pages of its pool; ``head`` is its first block."""

    address: int
    head: Block


# One integer sorts by size, then address: integers are faster to compare than tuples.
_ADDRESS_BITS = 64


class FreeBlocks:
    """The free blocks of one pool and stream, smallest first; of equal ones the lowest address first."""

    __slots__ = ("_by_key", "_keys", "pool", "stream", "unmapped")

    def __init__(self, pool: Pool, stream: int) -> None:
        self.pool = pool
        self.stream = stream
        self.unmapped: list[Block] = []  # address space of expandable segments, lowest first
        self._keys: list[int] = []
        self._by_key: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        """All of them, in order; safe against changes while iterating."""
        by_key = self._by_key
        return iter([by_key[key] for key in self._keys])

    def add(self, block: Block) -> None:
        """Put a block in."""
        key = block.size_bytes << _ADDRESS_BITS | block.address
        insort(self._keys, key)
        self._by_key[key] = block
        block.free = True

    def add_merged(self, block: Block) -> None:
        """Put a block in, as one with its free neighbours."""
        follower, before = block.next, block.previous
        if follower is not None and follower.free:
            self.remove(follower)
            absorb_next(block)
        if before is not None and before.free:
            self.remove(before)
            absorb_next(before)
            block = before
        self.add(block)

    def remove(self, block: Block) -> None:
        """Take a block out that is in here."""
        key = block.size_bytes << _ADDRESS_BITS | block.address
        del self._keys[bisect_left(self._keys, key)]
        del self._by_key[key]
        block.free = False

    def take_fit(self, size_bytes: int) -> Block | None:
        """The smallest block that can hold ``size_bytes``, taken out."""
        keys = self._keys
        place = bisect_left(keys, size_bytes << _ADDRESS_BITS)
        if place == len(keys):
            return None
        block = self._by_key.pop(keys.pop(place))
        block.free = False
        return block

    def from_fit(self, size_bytes: int) -> Iterator[Block]:
        """The blocks that can hold ``size_bytes``, the smallest first; not safe against changes."""
        keys = self._keys
        for place in range(bisect_left(keys, size_bytes << _ADDRESS_BITS), len(keys)):
            yield self._by_key[keys[place]]


@dataclass(slots=True, eq=False, repr=False)
class Pool:
    """The small or the large pool: a list of free blocks for every stream that allocated."""

    is_small: bool
    min_rest_bytes: int  # what is left of a fit is split off from this size on
    page_bytes: int  # of expandable segments
    by_stream: dict[int, FreeBlocks] = field(default_factory=dict)

    def of_stream(self, stream: int) -> FreeBlocks:
        """The list of ``stream``, made if need be."""
        free_blocks = self.by_stream.get(stream)
        if free_blocks is None:
            free_blocks = self.by_stream[stream] = FreeBlocks(self, stream)
        return free_blocks

    def free_blocks(self) -> list[Block]:
        """Every free block: by stream, size, address."""
        return [block for stream in sorted(self.by_stream) for block in self.by_stream[stream]]
