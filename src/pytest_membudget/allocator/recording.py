"""The allocator with a history, as PyTorch's after ``torch.cuda.memory._record_memory_history``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from .blocks import Block
from .caching import CachingAllocator
from .device_memory import OutOfMemory
from .rounding import block_bytes
from .settings import DEFAULT_SETTINGS, AllocatorSettings

NO_REQUEST: Final = -1
"""The request of an event that none is known for."""


class RecordedEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free.

    ``request``: the number of the request that it is due to. A free has that of its block; a segment that
    of the request that ran when it was allocated or freed. ``text``: the allocator's at the event.
    """

    action: str
    address: int
    size_bytes: int
    stream: int
    request: int
    text: str = ""


#: Of an event.
_FIELDS = 6


class RecordingAllocator(CachingAllocator):
    """A ``CachingAllocator`` with a history: ``record_trace`` of ``c10/cuda/CUDACachingAllocator.cpp``, 2.11.

    The caller of ``allocate`` sets ``request`` before, to its number of the request.
    """

    def __init__(
        self, settings: AllocatorSettings = DEFAULT_SETTINGS, capacity_bytes: int | None = None
    ) -> None:
        super().__init__(settings, capacity_bytes)
        self._begin()

    @staticmethod
    def taking_over(allocator: CachingAllocator) -> RecordingAllocator:
        """``allocator`` itself, with a history from here on."""
        recording: Any = allocator
        recording.__class__ = RecordingAllocator
        recording._begin()
        return recording  # type: ignore[no-any-return]

    def _begin(self) -> None:
        self._device.listener = self._segment_changed
        self.request = NO_REQUEST
        #: noted with every event from here on
        self.text = ""
        self._stream = 0
        # Numbers and texts one after the other, not a tuple an event: what the garbage collector tracks
        # would make it run more often, and with it the end of tensors in reference cycles.
        self._log: list[Any] = []
        self._requests: dict[int, int] = {}  # of active blocks, by address
        self._segment_requests: dict[int, int] = {}

    def allocate(self, size_bytes: int, stream: int = 0) -> Block:
        """As without a history."""
        self._stream = stream
        block = super().allocate(size_bytes, stream)
        if block.size_bytes:
            self._requests[block.address] = self.request
            self._note("alloc", block.address, size_bytes, stream, self.request)
        return block

    def free(self, block: Block, *, hold: bool = False) -> None:
        """As without a history."""
        if block.allocated:
            request = self.request_at(block.address)
            self._note("free_requested", block.address, block.requested_bytes, block.stream, request)
        super().free(block, hold=hold)

    @property
    def event_count(self) -> int:
        """How many events there are so far."""
        return len(self._log) // _FIELDS

    def events(self, since: int = 0) -> Iterator[RecordedEvent]:
        """The events from number ``since`` on, oldest first."""
        fields = islice(self._log, since * _FIELDS, None)
        return map(RecordedEvent, fields, fields, fields, fields, fields, fields)

    def request_at(self, address: int) -> int:
        """The request that the active block at ``address`` serves."""
        return self._requests.get(address, NO_REQUEST)

    def segment_request_at(self, address: int) -> int:
        """The request for which the segment at ``address`` was got, or the pages that were mapped there."""
        return self._segment_requests.get(address, NO_REQUEST)

    def _merge_in(self, block: Block) -> None:
        request = self._requests.pop(block.address, NO_REQUEST)
        self._note("free_completed", block.address, block.requested_bytes, block.stream, request)
        super()._merge_in(block)

    def _out_of_memory(self, size_bytes: int, limit_bytes: int | None) -> OutOfMemory:
        capacity_bytes = self._device.capacity_bytes
        if limit_bytes is not None and capacity_bytes is not None:  # else refused out of hand
            rounded = block_bytes(size_bytes, self._divisions)
            self._note("oom", capacity_bytes - self.reserved_bytes, rounded, self._stream, self.request)
        return super()._out_of_memory(size_bytes, limit_bytes)

    def _segment_changed(self, action: str, address: int, size_bytes: int, stream: int) -> None:
        if action in ("segment_alloc", "segment_map"):
            self._segment_requests[address] = self.request
        self._note(action, address, size_bytes, stream, self.request)

    def _note(self, action: str, address: int, size_bytes: int, stream: int, request: int) -> None:
        add = self._log.append
        add(action)
        add(address)
        add(size_bytes)
        add(stream)
        add(request)
        add(self.text)
