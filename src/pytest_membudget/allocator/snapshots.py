"""Reads what ``torch.cuda.memory._snapshot`` gives: a history of each device."""

from collections.abc import Mapping
from typing import Any

from .history import AllocatorSettings, DeviceHistory, HistoryEvent


def history_in(content: Mapping[str, Any], device: int) -> DeviceHistory:
    """The history of ``device`` in a snapshot; without events where none was recorded."""
    events = tuple(map(_event, content["device_traces"][device]))
    return DeviceHistory(events, _settings(content, device))


def _event(entry: Mapping[str, Any]) -> HistoryEvent:
    address = entry["device_free"] if entry["action"] == "oom" else entry["addr"]
    text = str(entry.get("user_metadata", ""))
    return HistoryEvent(str(entry["action"]), address, entry["size"], text, entry.get("frames") or ())


def _settings(content: Mapping[str, Any], device: int) -> AllocatorSettings:
    written = content.get("allocator_settings") or {}
    divisions = tuple((written.get("roundup_power2_divisions") or {}).values())
    limit = written.get("max_split_size", -1)
    return AllocatorSettings(
        expandable_segments=bool(written.get("expandable_segments"))
        or any(one["is_expandable"] for one in content["segments"] if one["device"] == device),
        roundup_power2_divisions=divisions if max(divisions, default=0) > 1 else (),
        max_split_size_bytes=limit if 0 < limit < 2**62 else None,
    )
