"""A run recorded for a snapshot: every allocation with its stack, operator, component and module."""

from __future__ import annotations

import os
import time
from typing import Any

import _pytest.python
import torch

from .. import components
from ..allocator.recording import RecordingAllocator
from .classify import component_of
from .record import Record
from .snapshot import Frames, RecordedRun, Told, snapshot_of
from .source import SourceFinder
from .stacks import StackBook
from .tracker import Tracker

_node = torch._C._current_autograd_node
#: PyTorch's words for a function without a source line.
_NO_FILE = "??"


class Recording:
    """Takes down what a snapshot tells of each request; follows ``tracker`` from the first one on.

    A request is a number; what is known of it stands in lists by that number. Plain texts and numbers:
    records kept for each request would make the garbage collector run more often. That it runs at other
    moments cannot be helped: walking a stack makes objects that it counts. The peak of a test that leaves
    tensors in reference cycles for it depends on these moments, and so on whether the run is recorded.
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
        tracker.ledger.on_death = self._ended

    def snapshot(self, alloc_conf: str = "") -> dict[str, Any] | None:
        """The run so far as ``torch.cuda.memory._snapshot`` has it; None if nothing has happened."""
        for record in self._ledger.live.values():
            self._ended(record)
        allocator = self._allocator
        run = RecordedRun(
            tuple(allocator.events()), allocator.segments(), allocator.settings, alloc_conf, self._began_us
        )
        if not run.events:
            return None
        told = _Teller(self)
        return snapshot_of(run, told.of, allocator.request_at, allocator.segment_request_at)

    def note(self, text: str) -> None:
        """The user's own text for what happens from here on (``_set_memory_metadata``); empty: none."""
        self._allocator.text = text

    def names_of(self, request: int) -> tuple[str, ...]:
        """What ran in C++, the innermost first: the operator, and in backward the node that called it."""
        operator, node = self._operators[request], self._nodes[request]
        if self._components[request] == components.WORKSPACES:
            operator = f"{operator} workspace"
        return (operator,) if node is None else (operator, node)

    def stack_of(self, request: int) -> int:
        """The number of its stack."""
        return self._stacks[request]

    def frames_of_stack(self, stack: int) -> Frames:
        """The frames of a stack by its number."""
        return self._book.frames(stack)

    def metadata_of(self, request: int) -> str:
        """Component and module, as far as they are known."""
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
        if record.request < 0:  # from before the recording
            return
        self._components[record.request] = component_of(record, self._ledger)
        self._modules[record.request] = record.name or record.module


class _Teller:
    """What there is to tell of requests; equal lists and texts are one object, and one in a pickle."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, Frames] = {}
        self._names: dict[str, dict[str, Any]] = {}
        self._frames: dict[tuple[int, tuple[str, ...]], Frames] = {}
        self._told: dict[tuple[int, tuple[str, ...], str], Told] = {}

    def of(self, request: int) -> Told:
        """Stack and component of a request; nothing for none."""
        if request < 0:
            return _NOTHING
        recording = self._recording
        key = (recording.stack_of(request), recording.names_of(request), recording.metadata_of(request))
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = Told(self._frames_of(key[0], key[1]), key[2])
        return told

    def _frames_of(self, stack: int, names: tuple[str, ...]) -> Frames:
        frames = self._frames.get((stack, names))
        if frames is None:
            if stack not in self._stacks:
                self._stacks[stack] = self._recording.frames_of_stack(stack)
            heads = [self._names.setdefault(name, named_frame(name)) for name in names]
            frames = self._frames[stack, names] = [*heads, *self._stacks[stack]]
        return frames


_NOTHING = Told()


def named_frame(name: str) -> dict[str, Any]:
    """A frame of a snapshot that has a name alone: no line of a file."""
    return {"filename": _NO_FILE, "line": 0, "name": name}


def stack_book(source: SourceFinder) -> StackBook:
    """Stacks without this package's own code, of which steps are the user's, and without pytest below."""
    ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
    steps = os.path.join(ours, "steps", "")

    def is_hidden(filename: str) -> bool:
        return filename.startswith(ours) and not filename.startswith(steps)

    return StackBook(_pytest.python.pytest_pyfunc_call.__code__, is_hidden, source.shows)
