"""A history played by address: what was in use after it, and the most that ever was."""

from dataclasses import dataclass, field

from pytest_membudget.allocator.block_map import UNDOING, start_of
from pytest_membudget.allocator.history import ACTIVE_ALLOCATED, INACTIVE


@dataclass
class Played:
    """Bytes of blocks and of segments, and the blocks that are not free after the last event, by address."""

    allocated_bytes: int = 0
    reserved_bytes: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    blocks: dict[int, int] = field(default_factory=dict)

    def count(self, allocated_bytes=0, reserved_bytes=0):
        self.allocated_bytes += allocated_bytes
        self.reserved_bytes += reserved_bytes
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)


def play(history):
    start = start_of(history)
    memory, played = start.memory, Played()
    in_use = {block.address for block in start.blocks if block.state == ACTIVE_ALLOCATED}
    played.blocks = {block.address: block.size_bytes for block in start.blocks}
    played.count(sum(played.blocks[address] for address in in_use), sum(size for _, size in start.reserved))
    for event in history.events:
        if event.action == "alloc":
            if memory.free_end(event.address) is None:
                resized = memory.begin_free_at(event.address)
                if resized is not None:
                    address, size_bytes = resized
                    played.count(size_bytes - played.blocks[address])
                    played.blocks[address] = size_bytes
            played.blocks[event.address] = memory.allocate(event.address, event.size_bytes)
            played.count(played.blocks[event.address])
        elif event.action == "free_requested":
            played.count(-played.blocks[event.address])
        elif event.action == "free_completed":
            memory.free(event.address)
            del played.blocks[event.address]
        elif event.action in UNDOING:
            played.count(0, memory.change(event.action, event.address, event.size_bytes))
    return played


def last_blocks(history):
    """The blocks that the allocator says are not free after ``history``."""
    return {b.address: b.size_bytes for s in history.segments for b in s.blocks if b.state != INACTIVE}
