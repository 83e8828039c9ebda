"""Records a run for a snapshot: every allocation with its stack, operator, component and module."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import _pytest.python
import torch

from .. import components
from ..allocator.recording import RecordingAllocator
from .record import Record
from .running_code.source import SourceFinder, is_own
from .snapshot import Frames, RequestDetails, RunHistory, snapshot_of
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

    Requests are numbered, and the lists below are by that number. They hold texts and numbers: an object for
    each request would make the garbage collector run more often. Walking a stack makes objects that it counts
    too, so a test that leaves tensors in reference cycles may have another peak when it is recorded.
    """

    def __init__(self, allocator: RecordingAllocator, tracker: Tracker, stacks: StackBook) -> None:
        self._allocator = allocator
        self._ledger = tracker.ledger
        self._book = stacks
        self._began_us = time.time_ns() // 1000
        self._stacks: list[int] = []
        self._operators: list[str] = []
        self._nodes: list[str | None] = []
        self._components: list[str] = []
        self._modules: list[str | None] = []
        tracker.on_request = self._requested
        tracker.ledger.on_death.append(self._ended)

    @property
    def event_count(self) -> int:
        """How many events there are so far."""
        return self._allocator.event_count

    def snapshot(self, alloc_conf: str = "", since: int = 0) -> dict[str, Any] | None:
        """The run so far as ``torch.cuda.memory._snapshot`` has it; None if nothing has happened.

        ``since``: the number of the first event that it has.
        """
        for record in self._ledger.live.values():
            self._ended(record)
        allocator = self._allocator
        run = RunHistory(
            tuple(allocator.events(since)),
            allocator.segments(),
            allocator.settings,
            alloc_conf,
            self._began_us,
        )
        if not run.events:
            return None
        details = _Details(self)
        return snapshot_of(run, details.of, allocator.request_at, allocator.segment_request_at)

    def note(self, text: str) -> None:
        """Attach the user's text to the events from here on (``_set_memory_metadata``); empty: none."""
        self._allocator.text = text

    def names_of(self, request: int) -> tuple[str, ...]:
        """What ran in C++, the innermost first: the operator, and in backward the node that called it."""
        operator, node = self._operators[request], self._nodes[request]
        if self._components[request] == components.WORKSPACES:
            operator = f"{operator} workspace"
        return (operator,) if node is None else (operator, node)

    def stack_of(self, request: int) -> int:
        """The number of the stack of a request."""
        return self._stacks[request]

    def frames_of_stack(self, stack: int) -> Frames:
        """The frames of a stack by its number."""
        return self._book.frames(stack)

    def metadata_of(self, request: int) -> str:
        """Component and module of a request, as far as they are known."""
        parts = (self._components[request], self._modules[request])
        return ", ".join(part for part in parts if part)

    def _requested(self, record: Record) -> None:
        record.request = self._allocator.request = len(self._stacks)
        self._stacks.append(self._book.capture())
        self._operators.append(record.operator)
        node = _node()
        self._nodes.append(node.name() if node is not None else None)
        self._components.append("")  # until its end shows what it was
        self._modules.append(record.module)

    def _ended(self, record: Record) -> None:
        if record.request < 0:  # allocated before the recording
            return
        self._components[record.request] = self._ledger.component_of(record)
        self._modules[record.request] = record.name or record.module


class _Details:
    """Details of requests; equal lists and texts are one object, so that a pickle has each once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, Frames] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self._frames: dict[tuple[int, tuple[str, ...]], Frames] = {}
        self._details: dict[tuple[int, tuple[str, ...], str], RequestDetails] = {}

    def of(self, request: int) -> RequestDetails:
        """Stack and component of a request; empty for ``NO_REQUEST``."""
        if request < 0:
            return _NOTHING
        recording = self._recording
        key = (recording.stack_of(request), recording.names_of(request), recording.metadata_of(request))
        details = self._details.get(key)
        if details is None:
            details = self._details[key] = RequestDetails(self._frames_of(key[0], key[1]), key[2])
        return details

    def _frames_of(self, stack: int, names: tuple[str, ...]) -> Frames:
        frames = self._frames.get((stack, names))
        if frames is None:
            if stack not in self._stacks:
                self._stacks[stack] = self._recording.frames_of_stack(stack)
            heads = [self._names.setdefault(name, named_frame(name)) for name in names]
            frames = self._frames[stack, names] = [*heads, *self._stacks[stack]]
        return frames


_NOTHING = RequestDetails()


def named_frame(name: str) -> dict[str, Any]:
    """A frame of a snapshot with a name and no source line."""
    return {"filename": _NO_FILE, "line": 0, "name": name}


def stack_book(source: SourceFinder) -> StackBook:
    """Stacks without this package's code, except for ``steps``, and without pytest's."""
    return StackBook(_pytest.python.pytest_pyfunc_call.__code__, is_own, source.shows)


class StackBook:
    """Stacks by number: the same stack has the same number, and is kept once.

    Kept are code objects and places in them, never frames: those would keep tensors alive.
    """

    def __init__(
        self, end: CodeType | None, is_hidden: Callable[[str], bool], is_users: Callable[[CodeType], bool]
    ) -> None:
        """``end``: code whose callers are left out; ``is_hidden``: files that no stack shows.

        ``is_users``: whether code is the user's or one of their libraries'. Callers of the outermost such
        code are left out.
        """
        self._end = end
        self._is_hidden = is_hidden
        self._is_users = is_users
        self._numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._stacks: list[list[tuple[CodeType, int]]] = []
        self._frames: dict[tuple[int, int], dict[str, Any]] = {}

    def capture(self) -> int:
        """The number of the stack that this is called on."""
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
        key = (tuple(map(id, codes)), tuple(places))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._stacks)
            self._stacks.append(list(zip(codes, places, strict=True)))
        return number

    def frames(self, number: int) -> list[dict[str, Any]]:
        """A stack in a snapshot's format: ``filename``, ``line`` and ``name``, the innermost first.

        Frames of this package and of pytest are left out; those of torch stay.
        """
        stack = [entry for entry in self._stacks[number] if not self._is_hidden(entry[0].co_filename)]
        users = [place for place, (code, _) in enumerate(stack) if self._is_users(code)]
        if users:
            del stack[users[-1] + 1 :]
        first = 0
        while first < len(stack) - 1 and _is_machinery(stack[first][0].co_filename):
            first += 1
        return [self._frame(code, place) for code, place in stack[first:]]

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
