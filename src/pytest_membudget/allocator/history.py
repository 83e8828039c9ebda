"""Allocator histories: what ``torch.cuda.memory._record_memory_history`` keeps, and ``_snapshot`` gives.

A history is the events of a device, oldest first, and its segments after the last one. In the events
``alloc`` and ``free_*`` carry the size that was requested, ``segment_*`` the real one. A block counts as
allocated until ``free_requested``, and is free from ``free_completed`` on, when its streams are done
(``record_trace`` in ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

ACTIVE_ALLOCATED: Final = "active_allocated"
"""In use. The states are spelled as ``torch.cuda.memory._snapshot`` spells them."""

ACTIVE_PENDING_FREE: Final = "active_pending_free"
"""Freed, but another stream may still use it."""

INACTIVE: Final = "inactive"
"""Free for the next request of its pool and stream."""

Frames = Sequence[Mapping[str, Any]]
"""A stack, the innermost frame first: ``{"filename", "line", "name"}``."""


class HistoryEvent(NamedTuple):
    """One event; the address of an ``oom`` is the number of bytes that the device had free.

    ``text``: the user's (``user_metadata``).
    """

    action: str
    address: int
    size_bytes: int
    text: str = ""
    frames: Frames = ()


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
class AllocatorSettings:
    """The settings that change the blocks of a request (``PYTORCH_ALLOC_CONF``); the defaults are PyTorch's.

    ``roundup_power2_divisions``: the divisions of one power of two after the other, the first for 1 MiB
    and less, the last for its own and more; empty: off.
    """

    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = ()
    max_split_size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """One device: its events, oldest first, its segments after them, and the settings they obeyed."""

    events: tuple[HistoryEvent, ...]
    segments: tuple[SegmentState, ...]
    settings: AllocatorSettings

    def digest(self) -> str:
        """Of what was asked for and given back, and in which block: equal runs have equal ones.

        Blocks and segments are numbered as they appear: where they lie depends on the process too. The order
        of what is given back at once, as by a dictionary that goes, changes nothing.
        """
        numbers: dict[int, int] = {}
        known = numbers.setdefault
        found = hashlib.sha256()
        events = ((one.action, known(one.address, len(numbers)), one.size_bytes) for one in self.events)
        for is_freed, group in groupby(events, key=lambda one: one[0].startswith("free")):
            some = [*group]
            found.update(repr(sorted(some) if is_freed else some).encode())
        return found.hexdigest()


def history_in(content: Mapping[str, Any], device: int) -> DeviceHistory:
    """The history of ``device`` in a snapshot; without events where none was recorded."""
    segments = tuple(_segment(entry) for entry in content["segments"] if entry["device"] == device)
    events = tuple(map(_event, content["device_traces"][device]))
    return DeviceHistory(events, segments, _settings(content, segments))


def _event(entry: Mapping[str, Any]) -> HistoryEvent:
    address = entry["device_free"] if entry["action"] == "oom" else entry["addr"]
    text = str(entry.get("user_metadata", ""))
    return HistoryEvent(str(entry["action"]), address, entry["size"], text, entry.get("frames") or ())


def _segment(entry: Mapping[str, Any]) -> SegmentState:
    blocks = tuple(
        BlockState(block["address"], block["size"], block["requested_size"], str(block["state"]))
        for block in entry["blocks"]
    )
    return SegmentState(entry["address"], entry["total_size"], bool(entry["is_expandable"]), blocks)


def _settings(content: Mapping[str, Any], segments: Sequence[SegmentState]) -> AllocatorSettings:
    written = content.get("allocator_settings") or {}
    divisions = tuple((written.get("roundup_power2_divisions") or {}).values())
    limit = written.get("max_split_size", -1)
    return AllocatorSettings(
        expandable_segments=bool(written.get("expandable_segments"))
        or any(segment.is_expandable for segment in segments),
        roundup_power2_divisions=divisions if max(divisions, default=0) > 1 else (),
        max_split_size_bytes=limit if 0 < limit < 2**62 else None,
    )
