"""Blocks and segments: the live ones that the allocator links, and the values that describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_membudget.allocator.expandable import VirtualSegment
    from pytest_membudget.allocator.pools import FreeBlocks

ACTIVE_ALLOCATED: Final = "active_allocated"
"""In use. The states are spelled as ``torch.cuda.memory._snapshot`` spells them."""

ACTIVE_PENDING_FREE: Final = "active_pending_free"
"""Freed, but another stream may still use it."""

INACTIVE: Final = "inactive"
"""Free for the next request of its pool and stream."""


class Block:
    """A range of device memory that a request was given, or that waits for one.

    ``size_bytes`` is what counts as allocated: the request rounded up, plus a rest that was not split
    off. A block belongs to the allocator once it was freed: drop it then, it may serve another request.
    """

    __slots__ = (
        "address",
        "allocated",
        "free",
        "home",
        "inserted_at_search",
        "mapped",
        "next",
        "pending",
        "previous",
        "requested_bytes",
        "size_bytes",
        "stream",
        "stream_uses",
        "virtual_segment",
    )

    def __init__(self, address: int, size_bytes: int, stream: int, home: FreeBlocks | None) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.stream = stream
        self.home = home  # where it goes when it is free
        self.requested_bytes = 0
        self.allocated = False  # handed out
        self.free = False  # in its home
        self.pending = False  # handed back, held by another stream
        self.mapped = True  # False for address space of an expandable segment with no memory behind it
        self.previous: Block | None = None
        self.next: Block | None = None
        self.stream_uses: set[int] | None = None
        self.virtual_segment: VirtualSegment | None = None
        self.inserted_at_search = 0

    def __repr__(self) -> str:
        state = block_state(self) if self.mapped else "unmapped"
        return f"Block(address={self.address:#x}, size_bytes={self.size_bytes}, {state})"

    @property
    def is_split(self) -> bool:
        """Whether the segment holds more than this block."""
        return self.previous is not None or self.next is not None


def block_state(block: Block) -> str:
    """The word that a snapshot has for a mapped ``block``."""
    if block.allocated:
        return ACTIVE_ALLOCATED
    return ACTIVE_PENDING_FREE if block.pending else INACTIVE


def link_after(block: Block, new: Block) -> None:
    """Put ``new`` behind ``block`` in its segment."""
    follower = block.next
    new.previous = block
    new.next = follower
    if follower is not None:
        follower.previous = new
    block.next = new


def split_off(block: Block, size_bytes: int) -> Block:
    """Cut ``block`` to ``size_bytes``; the rest behind it, mapped or not as the block, in no list."""
    rest = Block(block.address + size_bytes, block.size_bytes - size_bytes, block.stream, block.home)
    rest.mapped = block.mapped
    rest.virtual_segment = block.virtual_segment
    block.size_bytes = size_bytes
    link_after(block, rest)
    return rest


def absorb_next(block: Block) -> None:
    """Let ``block`` take over the room of the block behind it."""
    gone = block.next
    assert gone is not None
    block.size_bytes += gone.size_bytes
    block.next = gone.next
    if gone.next is not None:
        gone.next.previous = block


@dataclass(frozen=True, slots=True)
class BlockState:
    """One block of a segment: where, how large, what was asked for, and one of the three states."""

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
    blocks: tuple[BlockState, ...]

    @property
    def pool(self) -> str:
        """``"small"`` or ``"large"``, as a snapshot's ``segment_type``."""
        return "small" if self.is_small else "large"
