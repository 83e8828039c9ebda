"""Recorded allocator histories, as values: what ``torch.cuda.memory._record_memory_history`` kept.

A history is the events of a device, oldest first, and its segments after the last one. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one, and a block is free
from ``free_completed`` on (``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .blocks import SegmentState
from .settings import AllocatorSettings


class HistoryEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free."""

    action: str
    address: int
    size_bytes: int
    stream: int


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """One device: its events, oldest first, its segments after them, and the settings they obeyed."""

    device: int
    events: tuple[HistoryEvent, ...]
    segments: tuple[SegmentState, ...]
    settings: AllocatorSettings
    oldest_segment_first: bool = False
    """Of free blocks of one size the oldest segment's was taken: a torch from 2.12 on recorded this. Else the
    one with the lowest address was, or it is not known."""
