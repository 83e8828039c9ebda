"""Free blocks, kept in the order in which the allocator looks for a fit.

PyTorch keeps one ordered set a pool, sorted by stream, size, address (``BlockComparatorSize`` in
``c10/cuda/CUDACachingAllocator.cpp``, 2.11) and never crosses streams; here each (pool, stream) has a list.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from pytest_membudget.allocator.blocks import Block

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

    def __len__(self) -> int:
        return len(self._keys)

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
        block.inserted_at_search = self.pool.searches

    def remove(self, block: Block) -> None:
        """Take a block out that is in here."""
        key = block.size_bytes << _ADDRESS_BITS | block.address
        del self._keys[bisect_left(self._keys, key)]
        del self._by_key[key]
        block.free = False

    def first_fit(self, size_bytes: int) -> Block | None:
        """The smallest block that can hold ``size_bytes``, left where it is."""
        place = bisect_left(self._keys, size_bytes << _ADDRESS_BITS)
        return self._by_key[self._keys[place]] if place < len(self._keys) else None

    def take_fit(self, size_bytes: int) -> Block | None:
        """The same, taken out."""
        keys = self._keys
        place = bisect_left(keys, size_bytes << _ADDRESS_BITS)
        if place == len(keys):
            return None
        block = self._by_key.pop(keys.pop(place))
        block.free = False
        return block

    def from_fit(self, size_bytes: int) -> Iterator[Block]:
        """The blocks that can hold ``size_bytes``, in order; not safe against changes."""
        keys = self._keys
        for place in range(bisect_left(keys, size_bytes << _ADDRESS_BITS), len(keys)):
            yield self._by_key[keys[place]]


class Pool:
    """The small or the large pool: a list of free blocks for every stream that allocated."""

    __slots__ = ("by_stream", "is_small", "min_rest_bytes", "searches")

    def __init__(self, is_small: bool, min_rest_bytes: int) -> None:
        self.is_small = is_small
        self.min_rest_bytes = min_rest_bytes  # what is left of a fit is split off from this size on
        self.by_stream: dict[int, FreeBlocks] = {}
        self.searches = 0  # counted only where garbage collection needs a block's age

    def of_stream(self, stream: int) -> FreeBlocks:
        """The list of ``stream``, made if need be."""
        free_blocks = self.by_stream.get(stream)
        if free_blocks is None:
            free_blocks = self.by_stream[stream] = FreeBlocks(self, stream)
        return free_blocks

    def free_blocks(self) -> list[Block]:
        """Every free block: by stream, size, address."""
        return [block for stream in sorted(self.by_stream) for block in self.by_stream[stream]]

    def age(self, block: Block) -> int:
        """How many searches of this pool a free block has sat through (``gc_count``)."""
        return self.searches - block.inserted_at_search
