"""Prepares a run's snapshot for the report: operators, the test's calls, components and modules of blocks."""

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import _pytest.python

from ...allocator.history import Frames
from ...tracking.ledger import Ledger
from ...tracking.places import BACKWARD, is_workspace, node_of
from ...tracking.record import Line, Record
from ...tracking.running_code.source import SourceFinder, is_compiled, is_own
from .origins import requesting_function, stack_key
from .run_log import State, state_in

#: pytest's function that calls a test
_CALL = _pytest.python.pytest_pyfunc_call.__code__
#: PyTorch's file name of a function without a source line.
_NO_FILE: Final = "??"


class Purposes:
    """Component and module of each storage of ``ledger``, by the number of the event that allocated it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.on_death.append(self._note)
        self._texts: dict[int, str] = {}

    def so_far(self) -> Mapping[int, str]:
        """Of all storages, live ones included."""
        for record in self._ledger.live.values():
            self._note(record)
        return self._texts

    def _note(self, record: Record) -> None:
        parts = (self._ledger.component_of(record), record.name or record.module)
        self._texts[record.event] = sys.intern(", ".join(filter(None, parts)))


def show_in(
    content: dict[str, Any],
    device: int,
    purposes: Mapping[int, str],
    states: Sequence[State],
    source: SourceFinder,
) -> dict[str, Any]:
    """``content`` of ``torch.cuda.memory._snapshot``, changed in place: with the run's frames alone.

    An event's text (``user_metadata``), the number of one of ``states``, is replaced by component and module
    of its block: of ``purposes``, by the number of the event that allocated it.
    """
    frames = _Frames(states, source)
    held: list[dict[int, str]] = [{} for _ in content["device_traces"]]
    for number, trace in enumerate(content["device_traces"]):
        _show_in_trace(trace, purposes if number == device else {}, held[number], frames)
    for segment in content["segments"]:
        for entry in (segment, *segment["blocks"]):
            if "frames" in entry:
                entry["frames"] = frames.shown(entry)
            if "user_metadata" in entry:
                entry["user_metadata"] = held[device].get(entry["address"], "")
    return content


def _show_in_trace(
    trace: Sequence[dict[str, Any]], purposes: Mapping[int, str], held: dict[int, str], frames: "_Frames"
) -> None:
    """``held`` receives the texts of the blocks that are alive after ``trace``, by address."""
    for number, entry in enumerate(trace):
        action = entry["action"]
        if action == "alloc":
            held[entry["addr"]] = purposes.get(number, "")
        entry["frames"] = frames.shown(entry)
        entry["user_metadata"] = held.get(entry["addr"], "") if action in _OF_BLOCKS else ""
        if action == "free_completed":
            held.pop(entry["addr"], None)


_OF_BLOCKS = ("alloc", "free_requested", "free_completed")


class _Frames:
    """Stacks without this package's code and the test's callers; equal ones are one object."""

    def __init__(self, states: Sequence[State], source: SourceFinder) -> None:
        self._states = states
        self._source = source
        self._known: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
        self._called: dict[tuple[int, Line], list[Mapping[str, Any]]] = {}

    def shown(self, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The frames that are shown of the entry's stack; in a backward's threads with its caller's line."""
        found: Frames = entry.get("frames") or ()
        key = stack_key(found)
        if key not in self._known:
            self._known[key] = [*_heads(found), *self._calls(found)]
        shown = self._known[key]
        line = self._caller(str(entry.get("user_metadata", "")))
        if line is None or (shown and shown[-1]["filename"] != _NO_FILE):
            return shown
        return self._called.setdefault(
            (id(shown), line), [*shown, {"filename": line[0], "line": line[1], "name": BACKWARD}]
        )

    def _calls(self, frames: Frames) -> list[Mapping[str, Any]]:
        ends = (n for n, frame in enumerate(frames) if _is_call_of_test(frame))
        calls = [frame for frame in frames[: next(ends, None)] if _is_shown(str(frame["filename"]))]
        users = [n for n, frame in enumerate(calls) if self._source.shows(str(frame["filename"]))]
        return calls[: users[-1] + 1] if users else []

    def _caller(self, metadata: str) -> Line | None:
        """The line that called a backward, whose threads have no Python stack."""
        state = state_in(metadata)
        return self._states[state].line if state is not None and state < len(self._states) else None


def _is_shown(filename: str) -> bool:
    return filename.endswith(".py") and not is_own(filename) and not is_compiled(filename)


def _is_call_of_test(frame: Mapping[str, Any]) -> bool:
    return bool(frame["name"] == _CALL.co_name and frame["filename"] == _CALL.co_filename)


def _heads(frames: Frames) -> list[Mapping[str, Any]]:
    """What ran in C++, the innermost first: the operator, and in backward the node that called it."""
    if not frames:
        return []
    operator = requesting_function(frames)
    names = (f"{operator} workspace" if is_workspace(frames) else operator, node_of(frames))
    return [_named_frame(name) for name in names if name]


@functools.cache
def _named_frame(name: str) -> Mapping[str, Any]:
    """A frame with a name and no source line; one object for each name."""
    return {"filename": _NO_FILE, "line": 0, "name": name}
