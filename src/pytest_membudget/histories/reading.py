"""Reads snapshots of ``torch.cuda.memory._dump_snapshot`` as data, without running code in them.

A pickle can run code when it is loaded. A snapshot consists of lists, dictionaries, texts and numbers, so
anything else is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ..allocator.history import AllocatorSettings, BlockState, DeviceHistory, HistoryEvent, SegmentState
from ..errors import UsageMistake


def window_from(history: DeviceHistory, start: str, source: str) -> DeviceHistory:
    """``history`` from the event ``start`` on: its number, or the first with that text as its metadata.

    Raises ``UsageMistake`` where there is no such event in ``source``.
    """
    events = history.events
    if start.isdecimal():
        number = int(start)
    else:
        number = next((at for at, event in enumerate(events) if start in event.text), len(events))
    if number >= len(events):
        raise UsageMistake(
            f"{source} has no event {start!r}: write a number from 0 to {len(events) - 1}, or a text that "
            "torch.cuda.memory._set_memory_metadata has set"
        )
    return replace(history, events=events[number:])


class _DataOnly(pickle.Unpickler):
    """Builds plain containers, texts and numbers only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and a snapshot needs no code")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside itself")


def read_snapshot(path: Path, device: int = 0) -> DeviceHistory:
    """The history of ``device`` in the snapshot at ``path``.

    Raises ``UsageMistake`` for a file that is none, for one without events, and for an unknown device.
    """
    no_snapshot = f"{path} is no snapshot of torch.cuda.memory._dump_snapshot: "
    try:
        with path.open("rb") as stream:
            content = _DataOnly(stream).load()
    except OSError as error:
        raise UsageMistake(f"{path} cannot be read: {error}") from error
    except Exception as error:  # an invalid pickle may raise any exception
        raise UsageMistake(f"{no_snapshot}{type(error).__name__}: {error}") from error
    try:
        history = history_in(content, device, str(path))
        _check_frames(history.events)
        return history
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageMistake(f"{no_snapshot}{type(error).__name__} {error} in its content") from error


def history_in(content: Any, device: int, source: str) -> DeviceHistory:
    """``device`` in what ``torch.cuda.memory._snapshot`` gave; errors name ``source``.

    Raises ``UsageMistake`` where there are no such events, and ``KeyError`` and its like for other content.
    """
    traces = content["device_traces"]
    if not 0 <= device < len(traces):
        raise UsageMistake(f"{source} has devices 0 to {len(traces) - 1}, and no device {device}")
    entries = traces[device]
    if not entries:
        raise UsageMistake(
            f"{source} has no events of device {device}: call torch.cuda.memory._record_memory_history() "
            "before what is to be recorded"
        )
    segments = tuple(_segment(entry) for entry in content["segments"] if entry["device"] == device)
    return DeviceHistory(tuple(map(_event, entries)), segments, _settings(content, segments))


def _event(entry: Mapping[str, Any]) -> HistoryEvent:
    address = entry["device_free"] if entry["action"] == "oom" else entry["addr"]
    return HistoryEvent(
        str(entry["action"]),
        _number(address),
        _number(entry["size"]),
        str(entry.get("user_metadata", "")),
        entry.get("frames") or (),
    )


def _number(value: object) -> int:
    """``value``, which must be a whole number of 64 bits: a pickle may hold any number of digits."""
    if not isinstance(value, int) or not -(2**63) <= value < 2**64:
        raise TypeError(f"{type(value).__name__} in place of a whole number of 64 bits")
    return value


def _check_frames(events: Iterable[HistoryEvent]) -> None:
    """Raise ``KeyError`` or ``TypeError`` for stacks that are none; stacks share the objects of frames."""
    known: set[int] = set()
    for event in events:
        for frame in event.frames:
            if id(frame) not in known:
                known.add(id(frame))
                _number(frame["line"])
                if not isinstance(frame["filename"], str) or not isinstance(frame["name"], str):
                    raise TypeError("a frame's file and name are no texts")


def _segment(entry: Mapping[str, Any]) -> SegmentState:
    address = _number(entry["address"])
    blocks = []
    for block in entry["blocks"]:
        blocks.append(
            BlockState(
                _number(block.get("address", address)),
                _number(block["size"]),
                _number(block.get("requested_size", block["size"])),
                str(block["state"]),
            )
        )
        address = blocks[-1].address + blocks[-1].size_bytes
    return SegmentState(
        address=_number(entry["address"]),
        size_bytes=_number(entry["total_size"]),
        is_expandable=bool(entry.get("is_expandable", False)),
        blocks=tuple(blocks),
    )


def _settings(content: Mapping[str, Any], segments: Sequence[SegmentState]) -> AllocatorSettings:
    written = content.get("allocator_settings") or {}
    divisions = written.get("roundup_power2_divisions") or {}
    limit = _number(written.get("max_split_size", -1))
    table = tuple(_number(parts) for parts in divisions.values())
    return AllocatorSettings(
        expandable_segments=bool(written.get("expandable_segments"))
        or any(segment.is_expandable for segment in segments),
        roundup_power2_divisions=table if max(table, default=0) > 1 else (),
        max_split_size_bytes=limit if 0 < limit < 2**62 else None,
    )
