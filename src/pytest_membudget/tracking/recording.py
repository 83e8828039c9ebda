"""Records a run for a snapshot: every allocation with its stack, operator, component and module."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

import _pytest.python
import torch

from .. import components
from ..allocator.history import NO_REQUEST, DeviceHistory, HistoryLog
from .ledger import Ledger
from .record import Record
from .running_code.source import is_own
from .snapshot import snapshot_of
from .tracker import Tracker

_node = torch._C._current_autograd_node
#: Files of torch between an operator's call and a fake device: with real kernels they are in no stack.
_MACHINERY = tuple(
    os.path.join("torch", *path)
    for path in (("_ops.py",), ("_subclasses", ""), ("utils", "_python_dispatch.py"), ("_library", ""))
)
#: PyTorch's file name of a function without a source line.
_NO_FILE = "??"


class Recording:
    """Records stack, operator, component and module of each request that ``tracker`` sees.

    Requests are numbered, and stacks and purposes kept by that number, as numbers and texts: an object for
    each request would make the garbage collector run more often. Walking a stack makes objects that it counts
    too, so a test that leaves tensors in reference cycles may have another peak when it is recorded.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.log = HistoryLog()
        self._ledger = tracker.ledger
        # without this package's code, except for ``steps``, and without pytest's
        self._book = StackBook(_pytest.python.pytest_pyfunc_call.__code__, is_own, tracker.source.shows)
        self._began_us = time.time_ns() // 1000
        self._stacks: list[int] = []
        self._purposes = Purposes(tracker.ledger)
        tracker.on_request = self._requested
        tracker.ledger.allocator.listen(self.log.note)

    def snapshot(self, alloc_conf: str = "", since: int = 0) -> dict[str, Any] | None:
        """The run so far as ``torch.cuda.memory._snapshot`` has it; None if nothing has happened.

        ``since``: the number of the first event that it has.
        """
        events, allocator = tuple(self.log.events(since)), self._ledger.allocator
        if not events:
            return None
        history = DeviceHistory(0, events, tuple(allocator.segments()), allocator.settings)
        frames = functools.cache(self._book.frames)  # equal lists are one object: a pickle has each once
        purposes, stacks = self._purposes.so_far(), self._stacks
        return snapshot_of(
            history, lambda request: frames(stacks[request]), purposes, self.log, alloc_conf, self._began_us
        )

    def _requested(self, record: Record) -> None:
        record.request = self.log.request = len(self._stacks)
        node = _node()
        is_workspace = record.role == components.WORKSPACES
        operator = f"{record.operator} workspace" if is_workspace else record.operator
        self._stacks.append(self._book.capture(operator, *([node.name()] if node is not None else [])))
        self._purposes.texts[record.request] = record.module or ""  # until its end shows what it was


class Purposes:
    """Component and module of each storage of ``ledger``, by the number of its request."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.on_death.append(self._note)
        self.texts: dict[int, str] = {}

    def so_far(self) -> Mapping[int, str]:
        """Of all storages, live ones included."""
        for record in self._ledger.live.values():
            self._note(record)
        return self.texts

    def _note(self, record: Record) -> None:
        parts = (self._ledger.component_of(record), record.name or record.module)
        if record.request != NO_REQUEST:  # else it was allocated before the recording
            self.texts[record.request] = sys.intern(", ".join(filter(None, parts)))


@functools.cache
def named_frame(name: str) -> dict[str, Any]:
    """A frame of a snapshot with a name and no source line; one object for each name."""
    return {"filename": _NO_FILE, "line": 0, "name": name}


class StackBook:
    """Stacks by number: the same stack has the same number, and is kept once.

    Kept are code objects and places in them, never frames: those would keep tensors alive.
    """

    def __init__(
        self, end: CodeType | None, is_hidden: Callable[[str], bool], is_users: Callable[[str], bool]
    ) -> None:
        """``end``: code whose callers are left out; ``is_hidden``: files that no stack shows.

        ``is_users``: whether a file is the user's or one of their libraries'. Callers of the outermost code
        in such a file are left out.
        """
        self._end = end
        self._is_hidden = is_hidden
        self._is_users = is_users
        self._numbers: dict[tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]], int] = {}
        self._stacks: list[tuple[tuple[str, ...], list[tuple[CodeType, int]]]] = []
        self._frames: dict[tuple[int, int], dict[str, Any]] = {}

    def capture(self, *names: str) -> int:
        """The number of the stack that this is called on, below ``names``.

        These are what ran in C++, the innermost first: the operator, and in backward the node that called it.
        """
        frame: FrameType | None = sys._getframe(1)
        end = self._end
        codes: list[CodeType] = []
        places: list[int] = []
        while frame is not None:
            code = frame.f_code
            if code is end:
                break
            codes.append(code)
            places.append(frame.f_lasti)
            frame = frame.f_back
        # by identity, since hashing code hashes all its content; kept codes are alive, so ids are unique
        key = (names, tuple(map(id, codes)), tuple(places))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._stacks)
            self._stacks.append((names, list(zip(codes, places, strict=True))))
        return number

    def frames(self, number: int) -> list[dict[str, Any]]:
        """A stack in a snapshot's format: ``filename``, ``line`` and ``name``, the innermost first.

        Frames of this package and of pytest are left out; those of torch stay.
        """
        names, entries = self._stacks[number]
        stack = [entry for entry in entries if not self._is_hidden(entry[0].co_filename)]
        users = [place for place, (code, _) in enumerate(stack) if self._is_users(code.co_filename)]
        if users:
            del stack[users[-1] + 1 :]
        first = 0
        while first < len(stack) - 1 and _is_machinery(stack[first][0].co_filename):
            first += 1
        return [*map(named_frame, names), *(self._frame(code, place) for code, place in stack[first:])]

    def _frame(self, code: CodeType, place: int) -> dict[str, Any]:
        key = (id(code), place)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = {
                "filename": code.co_filename,
                "line": line_at(code, place),
                "name": code.co_name,
            }
        return frame


def line_at(code: CodeType, place: int) -> int:
    """The line of the instruction at ``place`` (a frame's ``f_lasti``); the first one where it has none."""
    for start, end, line in code.co_lines():
        if start <= place < end and line is not None:
            return line
    return code.co_firstlineno


def _is_machinery(filename: str) -> bool:
    return any(part in filename for part in _MACHINERY)
