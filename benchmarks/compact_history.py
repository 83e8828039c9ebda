"""An allocator history without its stacks: events and segments, and of each request the operator and place.

What ``load_history`` reads, with three lists more: ``operators`` and
``places``, texts, and ``requests``, for each ``alloc`` event their two indices, in the events' order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_membudget.allocator.history import (
    AllocatorSettings,
    BlockState,
    DeviceHistory,
    Frames,
    HistoryEvent,
    SegmentState,
)
from pytest_membudget.tracking.places import BACKWARD

from .history_places import NOWHERE, is_node, is_workspace, operator_of, place_of

_WORKSPACE = " workspace"
_NO_FILE = "??"


def compact(content: Mapping[str, Any], device: int, alloc_conf: str) -> dict[str, Any]:
    """``device`` in what ``torch.cuda.memory._snapshot`` gave."""
    operators: dict[str, int] = {}
    places: dict[str, int] = {}
    known: dict[tuple[int, ...], list[int]] = {}  # by the identities of frames: snapshots share them
    trace, requests = [], []
    for entry in content["device_traces"][device]:
        action = str(entry["action"])
        address = entry["device_free"] if action == "oom" else entry["addr"]
        trace.append([action, int(address), int(entry["size"]), int(entry["stream"])])
        if action == "alloc":
            frames = entry.get("frames") or ()
            stack = tuple(map(id, frames))
            if stack not in known:
                operator, place = _operator(frames), place_of(frames)
                known[stack] = [
                    operators.setdefault(operator, len(operators)),
                    places.setdefault(place, len(places)),
                ]
            requests.append(known[stack])
    return {
        "settings": alloc_conf or None,
        "traces": [[] for _ in range(device)] + [trace],
        "segments": [_segment(entry) for entry in content["segments"] if entry["device"] == device],
        "operators": list(operators),
        "places": list(places),
        "requests": requests,
    }


def write_history(path: Path, history: Mapping[str, Any]) -> int:
    """Write it, the same bytes for the same history; how many there are."""
    text = json.dumps(history, separators=(",", ":"))
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    path.write_bytes(packed)
    return len(packed)


def load_history(path: Path) -> dict[int, DeviceHistory]:
    """The devices in a ``.json.gz`` that had any events, by their numbers.

    The file: ``settings`` (``PYTORCH_ALLOC_CONF``, or null), ``traces`` (for each device a list of
    ``[action, address, size, stream]``) and ``segments`` as in a snapshot, with their ``blocks`` as
    ``[address, size, requested size, state]``. Without settings,
    expandable segments are on if there are any.
    """
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        content = json.load(stream)
    is_set = "expandable_segments:True" in (content["settings"] or "")
    settings = AllocatorSettings(is_set or any(segment["is_expandable"] for segment in content["segments"]))
    histories = {}
    for device, trace in enumerate(content["traces"]):
        events = tuple(HistoryEvent(*event[:3]) for event in trace)
        segments = tuple(_segment_state(entry) for entry in content["segments"] if entry["device"] == device)
        if events:
            histories[device] = DeviceHistory(events, segments, settings)
    return histories


def read_snapshot(path: Path) -> DeviceHistory:
    """The history with stacks that say operator and place, and no more, to be compared."""
    *_, history = load_history(path).values()
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        content = json.load(stream)
    distinct: dict[tuple[int, int], Frames] = {}
    events: list[HistoryEvent] = []
    requests = iter(content["requests"])
    for event in history.events:
        if event.action != "alloc":
            events.append(event)
            continue
        operator, place = next(requests)
        if (operator, place) not in distinct:
            distinct[operator, place] = _frames(content["operators"][operator], content["places"][place])
        events.append(event._replace(frames=distinct[operator, place]))
    return replace(history, events=tuple(events))


def _operator(frames: Frames) -> str:
    operator = operator_of(frames)
    return f"{operator}{_WORKSPACE}" if is_workspace(frames) else operator


def _frames(operator: str, place: str) -> Frames:
    frames = [{"filename": _NO_FILE, "line": 0, "name": operator}] if operator else []
    if is_node(place):
        frames.append({"filename": _NO_FILE, "line": 0, "name": place})
    elif place not in (NOWHERE, BACKWARD):
        filename, _, line = place.rpartition(":")
        frames.append({"filename": filename, "line": int(line), "name": ""})
    return tuple(frames)


def _segment(entry: Mapping[str, Any]) -> dict[str, Any]:
    address = int(entry["address"])
    blocks = []
    for block in entry["blocks"]:
        address = int(block.get("address", address))
        size_bytes = int(block["size"])
        blocks.append([address, size_bytes, int(block.get("requested_size", size_bytes)), block["state"]])
        address += size_bytes
    return {
        "device": int(entry["device"]),
        "address": int(entry["address"]),
        "total_size": int(entry["total_size"]),
        "stream": int(entry["stream"]),
        "segment_type": entry["segment_type"],
        "is_expandable": bool(entry.get("is_expandable", False)),
        "blocks": blocks,
    }


def _segment_state(entry: Mapping[str, Any]) -> SegmentState:
    return SegmentState(
        address=entry["address"],
        size_bytes=entry["total_size"],
        is_expandable=entry["is_expandable"],
        blocks=tuple(BlockState(*block) for block in entry["blocks"]),
    )
