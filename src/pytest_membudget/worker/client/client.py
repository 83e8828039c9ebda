"""Worker: the session's connection to one worker process, which runs single tests, one or several at once."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import WorkerFailure
from ..process_end import end_text
from ..protocol import RUNNING, Channel
from ..time_limit import Watch
from .answers import Answer, Request
from .order import Order, worker_environment
from .process_start import WORKER_MODULE, end_process, start_process, with_tail

#: Seconds in addition to a test's time limit, which the worker enforces, before the session ends the worker.
_GRACE = 30.0
#: The same for the start: importing a CUDA build of torch on a busy host takes long.
_START_GRACE = 120.0
#: The size of a pipe if the system does not report it (Linux's size for users with many pipes).
_PIPE_BYTES = 4096
#: Requests sent in addition to the running ones, so that a worker need not wait for the next.
_QUEUED = 2


class Worker:
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._collecting = False
        #: device memory that was allocated when the test files were imported, in bytes
        self.imported_bytes = 0
        #: the properties of its device
        self.card: Mapping[str, Any] = {}
        #: the node ids of the tests with budgets that it has collected, by file and key
        self.marked: Mapping[str, Mapping[str, str]] = {}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self._process, self._channel = start_process(
            WORKER_MODULE, self._output, worker_environment(order, self._scratch)
        )
        #: requests that were sent and not answered yet
        self.pending = PendingRequests(self._channel)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def has_room(self) -> bool:
        """Whether it runs several tests and can be sent one more request now."""
        most = self._order.processes + _QUEUED if self._order.processes > 1 else 1
        return len(self.pending) < most and self.pending.has_room()

    def send(self, request: Request) -> None:
        """Send ``request``, which names one test. Raises ``WorkerFailure`` if the worker is lost."""
        try:
            self.pending.send(request, timeout=self._order.timeout)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def receive(self, awaited: Request) -> tuple[Request, Answer]:
        """The next answer, and the request that it is for: ``awaited`` or another one that was sent.

        Raises ``WorkerFailure`` if the worker is lost; then start another one. After any other exception
        too, since answers are still to come.
        """
        while True:
            message = self._receive(f"estimating {awaited['key']}")
            is_begun = message["event"] == "started" and self.pending.begin(message)
            request = None if is_begun else self.pending.take(message)
            if request is not None:
                return request, {name: value for name, value in message.items() if name != "number"}
            if not is_begun:
                raise self._lost(f"the worker answered for {message.get('key')}, which it was not asked for")

    def close(self) -> None:
        """Kill the process and the tests that it runs."""
        end_process(self._process, self._channel)
        self._output.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # messages that it sent before it ended are read below
            self._channel.send({**self._order.to_json(), "scratch": self._scratch})
        self._receive("starting the session", _START_GRACE)
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        self.imported_bytes, self.card = ready["imported_bytes"], ready["card"]
        self.marked = ready["marked"]

    def _receive(self, doing: str, grace: float = _GRACE) -> dict[str, Any]:
        """The next message, within the time limit of a test plus ``grace`` seconds.

        A heartbeat starts the limit again: the worker enforces the time limits of its tests.
        """
        watch = Watch(self._process.pid, self._order.timeout + grace)
        while True:
            try:
                message = self._channel.receive(watch.wait_seconds())
            except TimeoutError:
                overrun = watch.look()
                if overrun is not None:
                    late = overrun.text("answer")
                    raise self._lost(f"the worker did not answer while {doing}: {late}") from None
                continue
            if message is None or message["event"] != RUNNING:
                break
            watch = Watch(self._process.pid, self._order.timeout + grace)
        if message is None:
            self._process.wait()
            raise self._lost(f"the worker {end_text(self._process.returncode)} while {doing}")
        if message["event"] == "failed":
            raise self._lost(message["reason"])
        return message

    def _lost(self, what: str) -> WorkerFailure:
        return WorkerFailure(with_tail(what, self._output), collecting=self._collecting)


class PendingRequests:
    """The requests to one worker that have no answer yet. Answers arrive in completion order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent: dict[int, Request] = {}
        self._sizes: dict[int, int] = {}  # of the messages, in bytes
        self._begun: set[int] = set()
        self._count = 0

    def __len__(self) -> int:
        return len(self._sent)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._sent.values())

    def begun(self) -> list[Request]:
        """The requests that are known to be running."""
        return [request for number, request in self._sent.items() if number in self._begun]

    def send(self, request: Request, **more: Any) -> None:
        """Send ``request`` with ``more`` and its number. ``BrokenPipeError`` if the worker is gone."""
        self._count += 1
        message = {**request, **more, "number": self._count}
        self._sent[self._count] = request
        self._sizes[self._count] = len(json.dumps(message)) + 1
        self._channel.send(message)

    def has_room(self) -> bool:
        """Whether a request of the largest size can be written without blocking.

        The worker may be waiting for this side to read an answer: then both would block. A pipe consists of
        pages, of which a message may leave half unused (pipe_write in fs/pipe.c, Linux 6.12).
        """
        sizes = [self._sizes[number] for number in self._sent]
        return 2 * (sum(sizes) + max(sizes, default=0)) <= _capacity_bytes(self._channel.write_fd)

    def begin(self, message: Mapping[str, Any]) -> bool:
        """Record that the request of ``message`` runs; False if it is none of these."""
        self._begun.add(message["number"])
        return message["number"] in self._sent

    def take(self, message: Mapping[str, Any]) -> Request | None:
        """Remove and return the request that ``message`` answers; None if it answers none."""
        request = self._sent.get(message.get("number", 0))
        if request is None or message.get("key") != request["key"]:
            return None
        return self._sent.pop(message["number"])


def _capacity_bytes(fd: int) -> int:
    try:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (ImportError, AttributeError, OSError):  # not on Linux
        return _PIPE_BYTES
