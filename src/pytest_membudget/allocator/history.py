"""Allocator histories: what ``torch.cuda.memory._record_memory_history`` keeps.

A history is the events of a device, oldest first, and its segments after the last one. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one, and a block is free
from ``free_completed`` on (``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .blocks import SegmentState
from .settings import AllocatorSettings

Frames = Sequence[Mapping[str, Any]]
"""A stack, the innermost frame first: ``{"filename", "line", "name"}``."""


class HistoryEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free.

    ``text``: the user's (``user_metadata``).
    """

    action: str
    address: int
    size_bytes: int
    stream: int
    text: str = ""
    frames: Frames = ()


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """One device: its events, oldest first, its segments after them, and the settings they obeyed."""

    device: int
    events: tuple[HistoryEvent, ...]
    segments: tuple[SegmentState, ...]
    settings: AllocatorSettings
