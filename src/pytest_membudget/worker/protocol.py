"""The protocol of a session and its workers: lines of JSON, in this order.

The session sends a ``Start``. The worker says when it begins to import the files, and when it is ready. Then
the session sends ``Task``s, any number at once, and gets a result of each, the first to end first; now and
then the worker says that it runs some. It ends when its pipe is closed.
"""

import json
import os
import select
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..devices.stand_in.ranks.shown_backend import LAUNCHERS
from ..json_object import JsonObject
from ..results.answer import Answer, Request

#: What makes a worker's device, ``module:function`` of the card.
STAND_IN: Final = "pytest_membudget.devices.stand_in.device:made_for"
CUDA: Final = "pytest_membudget.devices.real.device:made_for"
#: What a worker's message says: it begins to import the test files,
COLLECTING: Final = "collecting"
#: has collected them,
READY: Final = "ready"
#: runs the test of a rank, in whose process group all are,
BEGUN: Final = "begun"
#: runs tests and watches their time limits,
RUNNING: Final = "running"
#: has the answer of a task,
RESULT: Final = "result"
#: or ends, because it cannot go on.
FAILED: Final = "failed"
_CHUNK_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Start(JsonObject):
    """What a worker's process is to be: the session to repeat, the files to collect, the device."""

    args: Sequence[str]
    """pytest's command line."""
    dir: str
    """The folder that pytest was started in."""
    files: Sequence[str]
    gpu: str
    """The card that modules find while they are imported."""
    timeout: float
    """Seconds for the start, and for each test."""
    device: str = STAND_IN
    """``module:function`` that makes its device."""
    cards: int = 1
    """How many cards a process sees."""
    observes: bool = False
    """Whether it reports what its tests have read, for the cache of estimates."""
    processes: int = 1
    """How many of its tests may run at once."""
    backend: str = LAUNCHERS
    """The backend of process groups when measuring; with ``nccl`` each rank needs a CUDA device."""
    variant: int = 0
    """As of ``Request``: how its files are answered while they are imported,"""
    limited: bool = False
    """and whether their card is a budget's."""
    rank: int = 0
    world_size: int = 0
    """Which of several ranks imports them; 0 for none."""
    scratch: str = ""
    """The folder of its temporary files."""
    records: str = ""
    """The same of a worker that runs ranks of the same tests; empty for none."""
    stack_file: str = ""
    """Where a rank writes its stack; empty for a worker that is no rank."""
    listener: int = -1
    """Of a template: the socket at which it is asked for copies."""


@dataclass(frozen=True, slots=True)
class CopyRequest(JsonObject):
    """What a template is asked for: a process with this environment and import path."""

    environment: Mapping[str, str]
    path: Sequence[str]


@dataclass(frozen=True, slots=True)
class Task(JsonObject):
    """A request as it is sent; its answer has the same number."""

    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class Message(JsonObject):
    """What a worker sends."""

    event: str
    """One of the texts above."""
    number: int = 0
    """Of the task that has a result."""
    answer: Answer | None = None
    """The result; of a worker that is ready, what its device says of itself."""
    reason: str = ""
    """Why it has failed."""
    imported_bytes: int = 0
    """Device memory that the test files hold since they were imported."""
    marked: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The node ids of the tests with budgets that it has collected, by file and key."""
    asks_place: bool = False
    """Whether test files have asked, while they were imported, which rank they are of how many."""
    printed_bytes: int = 0
    """What the process of a rank had printed before its test began."""


def ready(reading: Iterable[int] = (), writing: Iterable[int] = (), timeout: float | None = None) -> set[int]:
    """The descriptors that can be read, or written, as soon as there is one; none after ``timeout``."""
    poll = select.poll()  # select.select refuses descriptors above 1,023
    for descriptor in reading:
        poll.register(descriptor, select.POLLIN)
    for descriptor in writing:
        poll.register(descriptor, select.POLLOUT)
    return {descriptor for descriptor, _ in poll.poll(None if timeout is None else timeout * 1000)}


class Channel:
    """Two pipe ends: one JSON object a line, either way."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._rest = b""
        #: what was posted and is not written yet
        self.unwritten = bytearray()

    def send(self, message: Mapping[str, Any], *, reads: bool = False) -> None:
        """Write one message; ``BrokenPipeError`` if its other end is closed.

        ``reads``: what arrives meanwhile is read, for ``receive``: the other end may write until it is.
        """
        self.post(message)
        self.flush(reads=reads)

    def flush(self, *, reads: bool = False) -> None:
        """Write what was posted, as ``send`` does."""
        while self.unwritten:
            while reads and self.write_fd not in ready([self.read_fd], [self.write_fd]):
                if not self._read_piece():
                    raise BrokenPipeError
            self._write_piece()

    def post(self, message: Mapping[str, Any]) -> None:
        """Let one message be written by ``write_some``: nobody may read the other end for long."""
        self.unwritten += json.dumps(message).encode() + b"\n"

    def write_some(self) -> None:
        """Write as much of it as does not block."""
        while self.unwritten and ready(writing=[self.write_fd], timeout=0):
            self._write_piece()

    def _write_piece(self) -> None:
        """Write as much as a pipe that is writable takes without blocking."""
        del self.unwritten[: os.write(self.write_fd, self.unwritten[: select.PIPE_BUF])]

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end of the stream. ``TimeoutError`` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not ready([self.read_fd], timeout=left):
                raise TimeoutError
            if not self._read_piece():
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _read_piece(self) -> bool:
        """Read what has arrived; whether that is not the end of the stream."""
        chunk = os.read(self.read_fd, _CHUNK_BYTES)
        self._rest += chunk
        return bool(chunk)

    def close(self) -> None:
        """Close both ends."""
        for fd in (self.read_fd, self.write_fd):
            os.close(fd)
