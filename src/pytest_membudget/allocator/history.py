"""Allocator histories: what ``torch.cuda.memory._record_memory_history`` keeps, recorded or of the model.

A history is the events of a device, oldest first, and its segments after the last one. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one, and a block is free
from ``free_completed`` on (``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from .blocks import SegmentState
from .settings import AllocatorSettings

NO_REQUEST: Final = -1
"""The request of an event that none is known for."""

Frames = Sequence[Mapping[str, Any]]
"""A stack, the innermost frame first: ``{"filename", "line", "name"}``."""


class HistoryEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free.

    ``request``: the number of the request that it is due to. A free has that of its block; a segment that
    of the request that ran when it was allocated or freed. ``text``: the user's (``user_metadata``).
    """

    action: str
    address: int
    size_bytes: int
    stream: int
    request: int = NO_REQUEST
    text: str = ""
    frames: Frames = ()


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """One device: its events, oldest first, its segments after them, and the settings they obeyed."""

    device: int
    events: tuple[HistoryEvent, ...]
    segments: tuple[SegmentState, ...]
    settings: AllocatorSettings


class HistoryLog:
    """The events of an allocator whose ``listener`` is ``note``; set ``request`` before each allocation."""

    def __init__(self) -> None:
        self.request = NO_REQUEST
        #: noted with every event from here on
        self.text = ""
        #: the requests that active blocks serve, and for which segments or pages were taken, by address
        self.requests: dict[int, int] = {}
        self.segment_requests: dict[int, int] = {}
        # Numbers and texts one after the other, not a tuple an event: what the garbage collector tracks
        # would make it run more often, and with it the end of tensors in reference cycles.
        self._fields: list[Any] = []

    def note(self, action: str, address: int, size_bytes: int, stream: int) -> None:
        """Add an event."""
        request = self.request
        if action == "alloc":
            self.requests[address] = request
        elif action == "free_requested":
            request = self.requests.get(address, NO_REQUEST)
        elif action == "free_completed":
            request = self.requests.pop(address, NO_REQUEST)
        elif action in ("segment_alloc", "segment_map"):
            self.segment_requests[address] = request
        self._fields += (action, address, size_bytes, stream, request, self.text)

    def __len__(self) -> int:
        return len(self._fields) // 6

    def events(self, since: int = 0) -> Iterator[HistoryEvent]:
        """The events from number ``since`` on, oldest first."""
        fields = islice(self._fields, since * 6, None)
        return map(HistoryEvent, fields, fields, fields, fields, fields, fields)
