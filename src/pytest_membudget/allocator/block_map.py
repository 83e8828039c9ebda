"""BlockMap: which memory is reserved, free and in blocks, as the events of a history say by address.

Figures are those of PyTorch's ``c10/core/AllocatorConfig.h`` (read in 2.11, 2.13 and 2.15; before 2.11 they
were in ``c10/cuda/CUDACachingAllocator.cpp``); rules those of ``round_size``,
``roundup_power2_next_division`` and ``get_allocation_size`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..units import MIB, round_up
from .history import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    AllocatorSettings,
    BlockState,
    DeviceHistory,
)

MIN_BLOCK_BYTES: Final = 512
"""Blocks are multiples of this (``kMinBlockSize``)."""

SMALL_BYTES: Final = 1 * MIB
"""The largest block of the small pool (``kSmallSize``)."""

_NO_LIMIT_BYTES = 2**64

#: Events of segments, as histories call them, by the one that undoes each.
UNDOING: Final = {
    "segment_alloc": "segment_free",
    "segment_map": "segment_unmap",
    "segment_free": "segment_alloc",
    "segment_unmap": "segment_map",
}
_GROWING: Final = ("segment_alloc", "segment_map")


class BlockMap:
    """Free memory and blocks of one device, by address.

    Free neighbours are one, as in PyTorch: but for those of two segments, which only expandable segments'
    pages may cross (``try_merge_blocks`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.13).
    """

    def __init__(self, settings: AllocatorSettings) -> None:
        self._divisions = settings.roundup_power2_divisions
        self._split_below_bytes = settings.max_split_size_bytes or _NO_LIMIT_BYTES
        self._stays_expandable = settings.expandable_segments
        #: whether new blocks are split as in expandable segments, which is a setting, and not of a segment
        self.is_expandable = settings.expandable_segments
        #: of free stretches the end by the start, and the start by the end
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        #: of blocks, free ones not among them, the size by the address
        self._blocks: dict[int, int] = {}
        #: where segments begin and end, if they are not expandable
        self._begins: set[int] = set()
        self._ends_of_segments: set[int] = set()

    def free_end(self, address: int) -> int | None:
        """The end of the free stretch that begins at ``address``, as one does where a block is placed."""
        return self._ends.get(address)

    def free_stretches(self) -> Iterable[tuple[int, int]]:
        """Start and end of all free memory, in no order."""
        return self._ends.items()

    def allocate(self, address: int, requested_bytes: int) -> int:
        """The size of the block that was placed at ``address``, for ``requested_bytes``."""
        size_bytes = block_bytes(requested_bytes, self._divisions)
        end = self._ends.pop(address, None)
        if end is not None:
            del self._starts[end]
            rest_bytes = end - address - size_bytes  # below 0: see begin_free_at
            if self._splits(size_bytes, rest_bytes):
                self._put(address + size_bytes, end)
            else:
                size_bytes += rest_bytes
        self._blocks[address] = size_bytes
        return size_bytes

    def free(self, address: int) -> int:
        """The block at ``address`` is free (``free_completed``); the start of what is free around it."""
        size_bytes = self._blocks.pop(address, None)
        return self._add(address, address + size_bytes) if size_bytes is not None else address

    def place(self, address: int, size_bytes: int) -> None:
        """A block of ``size_bytes`` lies at ``address``, in free memory."""
        self._take(address, address + size_bytes)
        self._blocks[address] = size_bytes

    def begin_free_at(self, address: int) -> tuple[int, int] | None:
        """Free memory begins at ``address``, as a block is placed there; the block whose size was not known.

        By its address, with its size. PyTorch splits further than ``allocate`` expects where it
        restores the state of a CUDA graph's pool, and what was left behind a block that is older than the
        history is seen only now: less than 1 MiB of the large pool is never free.
        """
        if address in self._ends:
            return None
        start = self._free_around(address)
        if start is None:
            found = next((at for at, size in self._blocks.items() if at < address < at + size), None)
            if found is not None:
                self._add(address, found + self._blocks[found])
        else:
            found = self._with_rest(start, address)
            self._put(address, self._ends.pop(start))
            if found is None:
                self._put(start, address)
        if found is None:
            return None
        self._blocks[found] = address - found
        return found, address - found

    def _with_rest(self, start: int, end: int) -> int | None:
        """The block that ends at ``start`` if what is free from there up to ``end`` must be its rest."""
        if self.is_expandable or end - start > SMALL_BYTES or not self._merges_at(start):
            return None
        found = next((at for at, size in self._blocks.items() if at + size == start), None)
        return found if found is not None and self._blocks[found] > SMALL_BYTES else None

    def change(self, action: str, address: int, size_bytes: int) -> int:
        """Reserve memory, or give back what is free: an event of a segment, as ``action`` is called.

        By how much reserved memory changed.
        """
        if action == "segment_alloc":
            self.is_expandable = self.is_expandable and self._stays_expandable
            self._begins.add(address)
            self._ends_of_segments.add(address + size_bytes)
            self._put(address, address + size_bytes)
        elif action == "segment_map":
            self.is_expandable = True
            self._add(address, address + size_bytes)
        else:
            self._take(address, address + size_bytes)
            if action == "segment_free":
                self._begins.discard(address)
                self._ends_of_segments.discard(address + size_bytes)
        return size_bytes if action in _GROWING else -size_bytes

    def _splits(self, size_bytes: int, rest_bytes: int) -> bool:
        """Whether a rest is split off from a block (``should_split``)."""
        if size_bytes <= SMALL_BYTES or self.is_expandable:
            return rest_bytes >= MIN_BLOCK_BYTES
        return rest_bytes > SMALL_BYTES and size_bytes < self._split_below_bytes

    def _put(self, start: int, end: int) -> None:
        self._ends[start], self._starts[end] = end, start

    def _add(self, start: int, end: int) -> int:
        """A free stretch, as one with its neighbours; its start."""
        if end in self._ends and self._merges_at(end):
            end = self._ends.pop(end)
        if start in self._starts and self._merges_at(start):
            start = self._starts.pop(start)
        self._put(start, end)
        return start

    def _merges_at(self, address: int) -> bool:
        return address not in self._begins and address not in self._ends_of_segments

    def _take(self, start: int, end: int) -> None:
        """Free memory is no longer there; what is free around it stays."""
        around = start if start in self._ends else self._free_around(start)
        if around is None:
            return
        behind = self._ends.pop(around)
        del self._starts[behind]
        if around < start:
            self._put(around, start)
        if end < behind:
            self._put(end, behind)

    def _free_around(self, address: int) -> int | None:
        """The start of the free stretch with ``address`` inside; these are few, and this is rare."""
        return next((start for start, end in self._ends.items() if start < address < end), None)


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


@dataclass(frozen=True, slots=True)
class Start:
    """What the allocator held before the first event of a history that may have lost its beginning."""

    memory: BlockMap
    blocks: tuple[BlockState, ...]
    """Those in use, and those that other streams may still use."""
    reserved: tuple[tuple[int, int], ...]
    """Address and size of what is reserved: segments, and mapped stretches of expandable ones."""


def start_of(history: DeviceHistory) -> Start:
    """The start of ``history``: its events, undone from the last to the first.

    Exact, but for up to 1 MiB behind a large block that was allocated before the first event and freed
    after it: whether that was part of the block may not be known, and it is then taken to be free.
    """
    grown = next((event.action for event in history.events if event.action in UNDOING), "")
    expandable = grown == "segment_map" if grown else history.settings.expandable_segments
    memory = BlockMap(history.settings)
    for segment in history.segments:
        action = "segment_map" if segment.is_expandable else "segment_alloc"
        memory.change(action, segment.address, segment.size_bytes)
    for event in reversed(history.events):
        if event.action in UNDOING:
            memory.change(UNDOING[event.action], event.address, event.size_bytes)
    memory.is_expandable = expandable
    reserved = tuple((start, end - start) for start, end in memory.free_stretches())
    return Start(memory, tuple(_placed(memory, _blocks_before(history))), reserved)


def _blocks_before(history: DeviceHistory) -> list[BlockState]:
    """The blocks before the first event; of size 0 where what was requested alone is known."""
    blocks = (block for segment in history.segments for block in segment.blocks)
    live = {block.address: block for block in blocks if block.state != INACTIVE}
    for event in reversed(history.events):
        if event.action == "alloc":
            live.pop(event.address, None)
        elif event.action == "free_completed":
            live[event.address] = BlockState(event.address, 0, event.size_bytes, ACTIVE_PENDING_FREE)
        elif event.action == "free_requested":
            known = live.get(event.address)
            size_bytes = known.size_bytes if known is not None else 0
            live[event.address] = BlockState(event.address, size_bytes, event.size_bytes, ACTIVE_ALLOCATED)
    return sorted(live.values(), key=lambda block: -block.address)


def _placed(memory: BlockMap, blocks: Iterable[BlockState]) -> Iterable[BlockState]:
    """``blocks``, the last first, so that what is free behind each is known."""
    for block in blocks:
        if block.size_bytes:
            memory.place(block.address, block.size_bytes)
            yield block
        else:
            memory.begin_free_at(block.address)
            size_bytes = memory.allocate(block.address, block.requested_bytes)
            yield BlockState(block.address, size_bytes, block.requested_bytes, block.state)
