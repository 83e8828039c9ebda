"""Replays a recorded history in the allocator model, and counts where the model did as recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest

from benchmarks.compact_history import RecordedHistory
from pytest_membudget.allocator.blocks import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    Block,
    FreeBlocks,
    SegmentState,
    split_off,
)
from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.allocator.history import DeviceHistory, HistoryEvent
from tests.allocator.starting_state import starting_segments


@dataclass(slots=True)
class ReplayCounts:
    """The recorded events, and how many of them the model reproduced.

    ``reserved_matched``: requests after which as much was reserved as recorded; ``segments``: those that
    the device gave (of expandable ones: the times that it mapped pages), matched if that held as well;
    ``strange_frees``: of blocks that the history does not account for, left out.
    """

    requests: int = 0
    addresses_matched: int = 0
    reserved_matched: int = 0
    segments: int = 0
    segments_matched: int = 0
    strange_frees: int = 0
    peak_reserved_bytes: int = 0


class ReplayedAllocator(CachingAllocator):
    """An allocator that begins with what another one held, and whose streams end when a history says so."""

    def __init__(self, settings, segment_address=None):
        super().__init__(settings, segment_address)
        self.pending: set[Block] = set()  # freed, but used by another stream

    def segments(self) -> list[SegmentState]:
        pending = {block.address for block in self.pending}
        return [
            replace(segment, blocks=tuple(
                replace(block, state=ACTIVE_PENDING_FREE) if block.address in pending else block
                for block in segment.blocks
            ))
            for segment in super().segments()
        ]  # fmt: skip

    def adopt(self, segment: SegmentState) -> list[Block]:
        """Hold a segment that some allocator held; its active blocks. Lower addresses come first."""
        pool = self._segments.small if segment.is_small else self._segments.large
        home = pool.of_stream(segment.stream)
        self.device.reserve(segment.size_bytes)
        block = self._mapped(home, segment) if segment.is_expandable else self._whole(home, segment)
        active = []
        for number, described in enumerate(segment.blocks, start=1):
            rest = split_off(block, described.size_bytes) if number < len(segment.blocks) else block
            if described.state == INACTIVE:
                home.add(block)
            else:
                block.requested_bytes = described.requested_bytes
                self._count_in(block)
                active.append(block)
                if described.state != ACTIVE_ALLOCATED:
                    self.free_later(block)
            block = rest
        return active

    def free_later(self, block: Block) -> None:
        """Free a block that another stream uses up to ``complete_free``."""
        self.allocated_bytes -= block.size_bytes
        self.pending.add(block)

    def complete_free(self, block: Block) -> None:
        """The last stream is done with a block."""
        if block in self.pending:
            self.pending.remove(block)
            self.allocated_bytes += block.size_bytes
        self.free(block)

    def _whole(self, home: FreeBlocks, segment: SegmentState) -> Block:
        return self._segments.add(segment.address, segment.size_bytes, home)

    def _mapped(self, home: FreeBlocks, segment: SegmentState) -> Block:
        """A block that is mapped already; address space reaches up from the lowest one adopted."""
        address = segment.address
        around = [b for b in home.unmapped if b.address <= address < b.address + b.size_bytes]
        block = around[0] if around else self._address_space(home, address)
        home.unmapped.remove(block)
        if block.address < address:
            home.unmapped.append(block)
            block = split_off(block, address - block.address)
        if segment.size_bytes < block.size_bytes:
            home.unmapped.append(split_off(block, segment.size_bytes))
        home.unmapped.sort(key=lambda unmapped: unmapped.address)
        block.mapped = True
        return block

    def _address_space(self, home: FreeBlocks, address: int) -> Block:
        new_address, self.device.new_address = self.device.new_address, lambda size_bytes: address
        block = self._segments.expandable._reserved_space(home)
        self.device.new_address = new_address
        return block


class Replay:
    """A pass over a device's history; ``allocator`` and ``recorded`` hold the outcome so far."""

    def __init__(self, history: DeviceHistory) -> None:
        self.recorded = ReplayCounts()
        self.allocator = ReplayedAllocator(history.settings, self._address)
        self._blocks: dict[int, Block] = {}  # by recorded address
        self._new_segments: list[HistoryEvent] = []  # recorded for the next request
        #: by the model's address of a segment the recorded one, where the model's own rise with its age
        self._moved: dict[int, int] = {}
        self._oldest_first = isinstance(history, RecordedHistory) and history.oldest_segment_first
        self._next_address = 2**60
        for segment in starting_segments(history):
            for block in self.allocator.adopt(segment):
                self._blocks[block.address] = block
        self.allocator.peak_allocated_bytes = self.allocator.allocated_bytes
        self.allocator.peak_requested_bytes = self.allocator.requested_bytes
        self._reserved_bytes = self.recorded.peak_reserved_bytes = self.allocator.reserved_bytes

    def play(self, event: HistoryEvent, following: HistoryEvent | None) -> None:
        """Apply one event."""
        action = event.action
        if action == "alloc":
            self._allocate(event)
        elif action == "free_requested":
            self._free(event)
        elif action == "free_completed":
            block = self._blocks.pop(event.address, None)
            if block is not None:
                self.allocator.complete_free(block)
        elif action in ("segment_alloc", "segment_map"):
            self._new_segments.append(event)
            self._reserved_bytes += event.size_bytes
            self.recorded.peak_reserved_bytes = max(self.recorded.peak_reserved_bytes, self._reserved_bytes)
        elif action in ("segment_free", "segment_unmap"):
            self._reserved_bytes -= event.size_bytes
            if following is None or following.action != action:
                self.allocator.empty_cache()

    def _allocate(self, event: HistoryEvent) -> None:
        block = self.allocator.allocate(event.size_bytes, event.stream)
        self._blocks[event.address] = block
        recorded = self.recorded
        recorded.requests += 1
        recorded.addresses_matched += self._recorded_address(block) == event.address
        recorded.segments += len(self._new_segments)
        if self.allocator.reserved_bytes == self._reserved_bytes:
            recorded.reserved_matched += 1
            recorded.segments_matched += len(self._new_segments)
        self._new_segments.clear()

    def _free(self, event: HistoryEvent) -> None:
        block = self._blocks.get(event.address)
        if block is None:
            self.recorded.strange_frees += 1
        else:
            self.allocator.free_later(block)

    def _address(self, size_bytes: int) -> int:
        """The address of the recorded segment that the model asks for; above all others if none was.

        Where the oldest segment comes first, every new one lies above the others.
        """
        recorded = self._recorded_segment(size_bytes)
        if recorded is not None and not self._oldest_first:
            return recorded
        address = self._next_address
        self._next_address += size_bytes
        if recorded is not None:
            self._moved[address] = recorded
        return address

    def _recorded_segment(self, size_bytes: int) -> int | None:
        for event in self._new_segments:
            if event.action == "segment_map" or event.size_bytes == size_bytes:
                return event.address
        return None

    def _recorded_address(self, block: Block) -> int:
        if not self._moved:
            return block.address
        start = _segment_start(block)
        return self._moved.get(start, start) + block.address - start


def _segment_start(block: Block) -> int:
    if block.virtual_segment is not None:
        return block.virtual_segment.address
    while block.previous is not None:
        block = block.previous
    return block.address


def replay(history: DeviceHistory) -> Replay:
    """Play all of a history; new segments lie where they lay, and are freed when the history says so."""
    played = Replay(history)
    for event, following in zip_longest(history.events, history.events[1:]):
        played.play(event, following)
    return played
