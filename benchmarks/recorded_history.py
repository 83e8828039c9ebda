"""Histories with the segments after them, and what the allocator held before their first event.

The plugin's own histories begin with a process: those of other programs may have lost their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_membudget.allocator.block_map import BlockMap
from pytest_membudget.allocator.history import DeviceHistory, HistoryEvent
from pytest_membudget.allocator.snapshots import history_in

#: Events of segments, as histories call them, by the one that undoes each.
_UNDOING: Final = {
    "segment_alloc": "segment_free",
    "segment_map": "segment_unmap",
    "segment_free": "segment_alloc",
    "segment_unmap": "segment_map",
}

ACTIVE_ALLOCATED: Final = "active_allocated"
"""In use. The states are spelled as ``torch.cuda.memory._snapshot`` spells them."""

ACTIVE_PENDING_FREE: Final = "active_pending_free"
"""Freed, but another stream may still use it."""

INACTIVE: Final = "inactive"
"""Free for the next request of its pool and stream."""


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
    is_expandable: bool
    blocks: tuple[BlockState, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedHistory(DeviceHistory):
    """A history with the segments after its last event."""

    segments: tuple[SegmentState, ...] = ()


def recorded_in(content: Mapping[str, Any], device: int) -> RecordedHistory:
    """The history of ``device`` in what ``torch.cuda.memory._snapshot`` gives."""
    history = history_in(content, device)
    segments = (_segment(one) for one in content["segments"] if one["device"] == device)
    return RecordedHistory(history.events, history.settings, tuple(segments))


def _segment(entry: Mapping[str, Any]) -> SegmentState:
    blocks = tuple(
        BlockState(block["address"], block["size"], block["requested_size"], str(block["state"]))
        for block in entry["blocks"]
    )
    return SegmentState(entry["address"], entry["total_size"], bool(entry["is_expandable"]), blocks)


@dataclass(frozen=True, slots=True)
class Start:
    """The memory before the first event."""

    memory: BlockMap
    blocks: tuple[BlockState, ...]
    """Those in use, and those that other streams may still use."""
    reserved: tuple[tuple[int, int], ...]
    """Address and size of what is reserved: segments, and mapped stretches of expandable ones."""


def start_of(history: RecordedHistory) -> Start:
    """The start of ``history``: its events, undone from the last to the first.

    Exact, but for up to 1 MiB behind a large block that was allocated before the first event and freed
    after it: whether that was part of the block may not be known, and it is then taken to be free.
    """
    grown = next((event.action for event in history.events if event.action in _UNDOING), "")
    expandable = grown == "segment_map" if grown else history.settings.expandable_segments
    memory = BlockMap(history.settings)
    for segment in history.segments:
        action = "segment_map" if segment.is_expandable else "segment_alloc"
        memory.change(action, segment.address, segment.size_bytes)
    for event in reversed(history.events):
        if event.action in _UNDOING:
            memory.change(_UNDOING[event.action], event.address, event.size_bytes)
    memory.is_expandable = expandable
    reserved = tuple((start, end - start) for start, end in memory.free_stretches())
    return Start(memory, tuple(_placed(memory, _blocks_before(history))), reserved)


def _blocks_before(history: RecordedHistory) -> list[BlockState]:
    """The blocks before the first event; of size 0 where what was requested alone is known."""
    blocks = (block for segment in history.segments for block in segment.blocks)
    live = {block.address: block for block in blocks if block.state != INACTIVE}
    for event in reversed(history.events):
        if event.action == "alloc":
            live.pop(event.address, None)
        elif event.action == "free_completed":
            live[event.address] = _unknown(event, ACTIVE_PENDING_FREE)
        elif event.action == "free_requested":
            known = live.get(event.address)
            size_bytes = known.size_bytes if known is not None else 0
            live[event.address] = BlockState(event.address, size_bytes, event.size_bytes, ACTIVE_ALLOCATED)
    return sorted(live.values(), key=lambda block: -block.address)


def _unknown(event: HistoryEvent, state: str) -> BlockState:
    return BlockState(event.address, 0, event.size_bytes, state)


def _placed(memory: BlockMap, blocks: Iterable[BlockState]) -> Iterable[BlockState]:
    """``blocks``, the last first, so that what is free behind each is known."""
    for block in blocks:
        if block.size_bytes:
            _place(memory, block)
            yield block
        else:
            memory.begin_free_at(block.address)
            size_bytes = memory.allocate(block.address, block.requested_bytes)
            yield BlockState(block.address, size_bytes, block.requested_bytes, block.state)


def _place(memory: BlockMap, block: BlockState) -> None:
    """``block`` lies in free memory, and its size is known."""
    memory.change("segment_unmap", block.address, block.size_bytes)
    memory.blocks[block.address] = block.size_bytes
