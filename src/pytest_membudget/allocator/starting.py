"""What the allocator held before the first event of a history that has lost its beginning."""

from collections.abc import Iterable
from dataclasses import dataclass

from .block_map import UNDOING, BlockMap
from .history import ACTIVE_ALLOCATED, ACTIVE_PENDING_FREE, INACTIVE, BlockState, DeviceHistory, HistoryEvent


@dataclass(frozen=True, slots=True)
class Start:
    """The memory before the first event."""

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
            memory.place(block.address, block.size_bytes)
            yield block
        else:
            memory.begin_free_at(block.address)
            size_bytes = memory.allocate(block.address, block.requested_bytes)
            yield BlockState(block.address, size_bytes, block.requested_bytes, block.state)
