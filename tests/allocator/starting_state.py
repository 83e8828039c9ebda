"""What an allocator held when a recorded history began: its events, undone from the last to the first.

Free blocks need no undoing: neighbours are merged at once, so they are the gaps between active blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pytest_membudget.allocator.blocks import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    BlockState,
    SegmentState,
)
from pytest_membudget.allocator.history import DeviceHistory, HistoryEvent
from pytest_membudget.allocator.rounding import SMALL_BYTES, SMALL_SEGMENT_BYTES, block_bytes
from pytest_membudget.allocator.settings import AllocatorSettings


@dataclass(slots=True)
class _Live:
    """An active block; while ``size_bytes`` is 0, only what was requested is known."""

    address: int
    requested_bytes: int
    state: str
    size_bytes: int = 0
    end: int = 0  # where the block ends if nothing is left over behind the rounded request
    room_end: int = 0  # where the next active block or the end of the segment is


def starting_segments(history: DeviceHistory) -> list[SegmentState]:
    """The segments and blocks before the first event, by address.

    Exact, except for one thing that a history may not show: how much of up to 1 MiB behind a large block
    belongs to it, when it was allocated before the history and nothing was placed behind it while it
    lived. It is then taken to be free.
    """
    ranges = _Ranges(history)
    live = {
        block.address: _Live(block.address, block.requested_bytes, block.state, block.size_bytes)
        for segment in history.segments
        for block in segment.blocks
        if block.state != INACTIVE
    }
    for event in reversed(history.events):
        if event.action == "alloc":
            live.pop(event.address, None)
        elif event.action == "free_completed":
            live[event.address] = _Live(event.address, event.size_bytes, ACTIVE_PENDING_FREE)
        elif event.action == "free_requested":
            block = live.setdefault(event.address, _Live(event.address, event.size_bytes, ""))
            block.state = ACTIVE_ALLOCATED
        else:
            ranges.undo(event)
    placed = _place(ranges.held(), live.values())
    for segment, blocks in placed:
        _settle_sizes(segment, blocks, history.settings)
    unsettled = [block for _, blocks in placed for block in blocks if not block.size_bytes]
    _settle_rests(unsettled, history.events)
    return [replace(segment, blocks=tuple(_states(segment, blocks))) for segment, blocks in placed]


def _place(held: Iterable[SegmentState], live: Iterable[_Live]) -> list[tuple[SegmentState, list[_Live]]]:
    """The segments with their live blocks, both by address."""
    blocks = sorted(live, key=lambda block: block.address)
    addresses = [block.address for block in blocks]
    return [
        (segment, blocks[bisect_left(addresses, segment.address) : bisect_left(addresses, segment.end)])
        for segment in sorted(held, key=lambda segment: segment.address)
    ]


def _settle_sizes(segment: SegmentState, blocks: list[_Live], settings: AllocatorSettings) -> None:
    """Find the sizes that follow from the rounding rules and the room that there is."""
    limit = settings.max_split_size_bytes
    for number, block in enumerate(blocks, start=1):
        rounded = block_bytes(block.requested_bytes, settings.roundup_power2_divisions)
        block.end = block.address + rounded
        block.room_end = blocks[number].address if number < len(blocks) else segment.end
        if block.size_bytes:
            continue
        if segment.is_small or segment.is_expandable:
            block.size_bytes = rounded
        elif block.room_end - block.end <= SMALL_BYTES or (limit is not None and rounded >= limit):
            # a free block of the large pool is over 1 MiB, so less than that belongs to the block before
            block.size_bytes = block.room_end - block.address


def _settle_rests(unsettled: list[_Live], events: Iterable[HistoryEvent]) -> None:
    """Find the other sizes from what was placed behind the blocks: always at the start of what is free."""
    starts = [block.address for block in unsettled]
    by_start = dict(zip(starts, unsettled, strict=True))
    for event in events:
        if event.action == "alloc":
            number = bisect_right(starts, event.address) - 1
            block = unsettled[number] if number >= 0 else None
            if block is not None and not block.size_bytes and event.address < block.room_end:
                rest_bytes = event.address - block.end
                known = 0 <= rest_bytes <= SMALL_BYTES
                block.size_bytes = block.end - block.address + (rest_bytes if known else 0)
        elif event.action == "free_completed":
            block = by_start.get(event.address)
            if block is not None and not block.size_bytes:
                block.size_bytes = block.end - block.address
    for block in unsettled:
        block.size_bytes = block.size_bytes or block.end - block.address


def _states(segment: SegmentState, blocks: list[_Live]) -> Iterator[BlockState]:
    """``blocks`` and the free ones between them."""
    address = segment.address
    for block in blocks:
        if block.address > address:
            yield BlockState(address, block.address - address, 0, INACTIVE)
        yield BlockState(block.address, block.size_bytes, block.requested_bytes, block.state)
        address = block.address + block.size_bytes
    if address < segment.end:
        yield BlockState(address, segment.end - address, 0, INACTIVE)


class _Ranges:
    """The memory held, from the end of a history backwards: segments whose blocks do not count."""

    def __init__(self, history: DeviceHistory) -> None:
        self._whole = {segment.address: segment for segment in history.segments if not segment.is_expandable}
        self._mapped = [segment for segment in history.segments if segment.is_expandable]
        # pages of the small pool are mapped one by one; those of the large pool are larger
        known = {range_.address: range_.is_small for range_ in self._mapped}
        known.update(
            (event.address, event.size_bytes == SMALL_SEGMENT_BYTES)
            for event in history.events
            if event.action == "segment_map"
        )
        self._pool_at = sorted(known.items())

    def undo(self, event: HistoryEvent) -> None:
        """Go back over one event."""
        end = event.address + event.size_bytes
        if event.action == "segment_alloc":
            self._whole.pop(event.address, None)
        elif event.action == "segment_free":
            is_small = event.size_bytes == SMALL_SEGMENT_BYTES
            self._whole[event.address] = SegmentState(*event[1:4], is_small, is_expandable=False)
        elif event.action == "segment_map":
            self._mapped = [part for range_ in self._mapped for part in _without(range_, event.address, end)]
        elif event.action == "segment_unmap":
            is_small = self._is_small(event.address)
            self._mapped.append(SegmentState(*event[1:4], is_small, is_expandable=True))

    def held(self) -> list[SegmentState]:
        """The memory held at the beginning, mapped neighbours as one range."""
        merged: list[SegmentState] = []
        for range_ in sorted(self._mapped, key=lambda mapped: mapped.address):
            if merged and merged[-1].end == range_.address and merged[-1].is_small == range_.is_small:
                merged[-1] = replace(merged[-1], size_bytes=range_.end - merged[-1].address)
            else:
                merged.append(range_)
        return [*self._whole.values(), *merged]

    def _is_small(self, address: int) -> bool:
        """The pool of the address space around ``address``: that of the nearest pages that are known."""
        nearest = min(self._pool_at, key=lambda known: abs(known[0] - address), default=(0, False))
        return nearest[1]


def _without(range_: SegmentState, address: int, end: int) -> Iterator[SegmentState]:
    if end <= range_.address or range_.end <= address:
        yield range_
        return
    if range_.address < address:
        yield replace(range_, size_bytes=address - range_.address)
    if end < range_.end:
        yield replace(range_, address=end, size_bytes=range_.end - end)
