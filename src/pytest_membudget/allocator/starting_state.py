"""What an allocator held when a recorded history began: its events, undone from the last to the first.

Free blocks need no undoing: neighbours are merged at once, so they are the gaps between active blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .blocks import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    BlockState,
    SegmentState,
)
from .history import DeviceHistory, HistoryEvent
from .rounding import SMALL_BYTES, SMALL_SEGMENT_BYTES, block_bytes
from .settings import AllocatorSettings


@dataclass(slots=True)
class _Live:
    """An active block; while ``size_bytes`` is 0, only what was requested is known."""

    address: int
    requested_bytes: int
    state: str
    size_bytes: int = 0
    end: int = 0  # where the block ends if nothing is left over behind the rounded request
    room_end: int = 0  # where the next active block or the end of the segment is


@dataclass(slots=True)
class _Range:
    """Memory that is held of the device."""

    address: int
    end: int
    stream: int
    is_small: bool
    is_expandable: bool


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
    for range_, blocks in placed:
        _settle_sizes(range_, blocks, history.settings)
    unsettled = [block for _, blocks in placed for block in blocks if not block.size_bytes]
    _settle_rests(unsettled, history.events)
    return [_segment_state(range_, blocks) for range_, blocks in placed]


def _place(held: Iterable[_Range], live: Iterable[_Live]) -> list[tuple[_Range, list[_Live]]]:
    """The ranges with their live blocks, both by address."""
    blocks = sorted(live, key=lambda block: block.address)
    addresses = [block.address for block in blocks]
    return [
        (range_, blocks[bisect_left(addresses, range_.address) : bisect_left(addresses, range_.end)])
        for range_ in sorted(held, key=lambda range_: range_.address)
    ]


def _settle_sizes(range_: _Range, blocks: list[_Live], settings: AllocatorSettings) -> None:
    """Find the sizes that follow from the rounding rules and the room that there is."""
    limit = settings.max_split_size_bytes
    for number, block in enumerate(blocks, start=1):
        rounded = block_bytes(block.requested_bytes, settings.roundup_power2_divisions)
        block.end = block.address + rounded
        block.room_end = blocks[number].address if number < len(blocks) else range_.end
        if block.size_bytes:
            continue
        if range_.is_small or range_.is_expandable:
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


def _segment_state(range_: _Range, blocks: list[_Live]) -> SegmentState:
    states: list[BlockState] = []
    address = range_.address
    for block in blocks:
        if block.address > address:
            states.append(BlockState(address, block.address - address, 0, INACTIVE))
        states.append(BlockState(block.address, block.size_bytes, block.requested_bytes, block.state))
        address = block.address + block.size_bytes
    if address < range_.end:
        states.append(BlockState(address, range_.end - address, 0, INACTIVE))
    return SegmentState(
        range_.address,
        range_.end - range_.address,
        range_.stream,
        range_.is_small,
        range_.is_expandable,
        tuple(states),
    )


class _Ranges:
    """The memory held, from the end of a history backwards."""

    def __init__(self, history: DeviceHistory) -> None:
        self._whole: dict[int, _Range] = {}
        self._mapped: list[_Range] = []
        for segment in history.segments:
            range_ = _Range(
                segment.address,
                segment.address + segment.size_bytes,
                segment.stream,
                segment.is_small,
                segment.is_expandable,
            )
            if segment.is_expandable:
                self._mapped.append(range_)
            else:
                self._whole[segment.address] = range_
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
            self._whole[event.address] = _Range(event.address, end, event.stream, is_small, False)
        elif event.action == "segment_map":
            self._mapped = [part for range_ in self._mapped for part in _without(range_, event.address, end)]
        elif event.action == "segment_unmap":
            is_small = self._is_small(event.address)
            self._mapped.append(_Range(event.address, end, event.stream, is_small, True))

    def held(self) -> list[_Range]:
        """The memory held at the beginning, mapped neighbours as one range."""
        merged: list[_Range] = []
        for range_ in sorted(self._mapped, key=lambda mapped: mapped.address):
            if merged and merged[-1].end == range_.address and merged[-1].is_small == range_.is_small:
                merged[-1].end = range_.end
            else:
                merged.append(range_)
        return [*self._whole.values(), *merged]

    def _is_small(self, address: int) -> bool:
        """The pool of the address space around ``address``: that of the nearest pages that are known."""
        nearest = min(self._pool_at, key=lambda known: abs(known[0] - address), default=(0, False))
        return nearest[1]


def _without(range_: _Range, address: int, end: int) -> Iterator[_Range]:
    if end <= range_.address or range_.end <= address:
        yield range_
        return
    if range_.address < address:
        yield _Range(range_.address, address, range_.stream, range_.is_small, True)
    if end < range_.end:
        yield _Range(end, range_.end, range_.stream, range_.is_small, True)
