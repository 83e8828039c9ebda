"""Recorded allocator histories, as values: what ``torch.cuda.memory._record_memory_history`` kept.

A history is the events of a device, oldest first, and its segments after the last one. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one, and a block is free
from ``free_completed`` on (``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_membudget.allocator.blocks import BlockState, SegmentState
from pytest_membudget.allocator.settings import AllocatorSettings


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


def load_history(path: Path) -> list[DeviceHistory]:
    """The devices in a ``.json.gz`` that had any events.

    The file: ``settings`` (``PYTORCH_ALLOC_CONF``, or null), ``traces`` (for each device a list of
    ``[action, address, size, stream]``) and ``segments`` as in a snapshot, with their ``blocks`` as
    ``[address, size, requested size, state]``; ``oldest_segment_first`` where it is known. Without settings,
    expandable segments are on if there are any.
    """
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        content = json.load(stream)
    settings = AllocatorSettings.parse(content["settings"] or "", source=str(path))
    if any(segment["is_expandable"] for segment in content["segments"]):
        settings = replace(settings, expandable_segments=True)
    histories = []
    for device, trace in enumerate(content["traces"]):
        events = tuple(HistoryEvent(*event) for event in trace)
        segments = tuple(_segment(entry) for entry in content["segments"] if entry["device"] == device)
        if events:
            oldest_first = content.get("oldest_segment_first", False)
            histories.append(DeviceHistory(device, events, segments, settings, oldest_first))
    return histories


def _segment(entry: Mapping[str, Any]) -> SegmentState:
    return SegmentState(
        address=entry["address"],
        size_bytes=entry["total_size"],
        stream=entry["stream"],
        is_small=entry["segment_type"] == "small",
        is_expandable=entry["is_expandable"],
        blocks=tuple(BlockState(*block) for block in entry["blocks"]),
    )
