"""Worker: the session's connection to one worker process, which runs single tests, one or several at once."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from ...errors import WorkerFailure
from ..processes import WORKER_MODULE, Process, end_process, end_text, start_process, with_tail
from ..protocol import RUNNING, Answer, Channel, Request
from ..time_limit import Watch
from .order import Order, worker_environment, worker_import_path
from .template import copied

#: Seconds in addition to a test's time limit, which the worker enforces, before the session ends the worker.
_GRACE = 30.0
#: The same for the start: importing a CUDA build of torch on a busy host takes long.
_START_GRACE = 120.0
#: Requests sent in addition to the running ones, so that a worker need not wait for the next.
_QUEUED = 2


class Worker:
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._collecting = False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self._process, self._channel = self._started()
        #: requests that were sent and not answered yet, by number; answers arrive in completion order
        self.pending: dict[int, Request] = {}
        self._numbers = itertools.count(1)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _started(self) -> tuple[Process, Channel]:
        """Its process: a copy of the template, or one of its own."""
        order = self._order
        environment, path = worker_environment(order, self._scratch), worker_import_path(order)
        if order.template:
            seconds = order.timeout + _START_GRACE
            copy = copied(order.template, self._output, environment, path, seconds)
            if copy is not None:
                return copy
        return start_process(WORKER_MODULE, self._output, environment, import_path=path)

    def has_room(self) -> bool:
        """Whether it runs several tests and can be sent one more request now."""
        most = self._order.processes + _QUEUED if self._order.processes > 1 else 1
        return len(self.pending) < most

    def send(self, request: Request) -> None:
        """Send ``request``, which names one test. Raises ``WorkerFailure`` if the worker is lost."""
        number = next(self._numbers)
        self.pending[number] = request
        message = {**request, "timeout": self._order.timeout, "number": number}
        try:
            self._channel.send(message, reads=True)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def receive(self, awaited: Request) -> tuple[Request, Answer]:
        """The next answer, and the request that it is for: ``awaited`` or another one that was sent.

        Raises ``WorkerFailure`` if the worker is lost; then start another one. After any other exception
        too, since answers are still to come.
        """
        message = self._receive(f"estimating {awaited['key']}")
        request = take_answered(self.pending, message)
        if request is None:
            raise self._lost(f"the worker answered for {message.get('key')}, which it was not asked for")
        return request, {name: value for name, value in message.items() if name != "number"}

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
        #: device memory that was allocated when the test files were imported, in bytes
        self.imported_bytes: int = ready["imported_bytes"]
        #: the properties of its device
        self.card: Mapping[str, Any] = ready["card"]
        #: the node ids of the tests with budgets that it has collected, by file and key
        self.marked: Mapping[str, Mapping[str, str]] = ready["marked"]

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


def take_answered(pending: dict[int, Request], message: Mapping[str, Any]) -> Request | None:
    """Remove the request that ``message`` answers, and return it; None if it answers none of them."""
    number = message.get("number", 0)
    if number not in pending or message.get("key") != pending[number]["key"]:
        return None
    return pending.pop(number)
