"""Reads what ``torch.cuda.memory._snapshot`` gives: a history of each device, and what lies there now."""

from collections.abc import Mapping, Sequence
from typing import Any

from .history import AllocatorSettings, BlockState, DeviceHistory, HistoryEvent, SegmentState


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
