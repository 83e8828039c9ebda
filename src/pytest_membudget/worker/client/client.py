"""Talks to a worker process, which runs single tests: several of them at once where its order says so."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import WorkerFailure
from ..exit_status import end_text
from .order import Order, worker_environment
from .pending_requests import PendingRequests
from .process_start import end_process, start_process, with_tail

#: What a worker process runs.
_WORKER = "pytest_membudget.worker.__main__"
#: Seconds that the worker's own time limit gets to work before this side gives up on the worker.
_GRACE = 30.0
#: The same of a start: torch's CUDA build is imported, on a busy host perhaps.
_START_GRACE = 120.0
#: Requests that a worker has besides those that it runs, so that it need not wait for the next.
_IN_STORE = 2


class Worker:
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._collecting = False
        #: device memory that the test files hold since their import
        self.imported_bytes = 0
        #: what it says of its device
        self.card: Mapping[str, Any] = {}
        #: it has run a test in its own process, and can run no other
        self.is_spent = False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._scratch = tempfile.mkdtemp(prefix="membudget-")
        self._process, self._channel = start_process(
            _WORKER, self._output, worker_environment(order, self._scratch)
        )
        self._pending = PendingRequests(self._channel)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def ask(
        self, request: Mapping[str, Any], following: Callable[[], Mapping[str, Any] | None] = lambda: None
    ) -> dict[str, Any]:
        """The answer to ``request``, which names one test.

        ``following``: what will be asked next, if anything; it is sent ahead where the worker runs several.
        Raises ``WorkerFailure`` if the worker itself is lost: then start another one. So it must be after
        any other exception, for answers are still to come.
        """
        number = self._pending.number_of(request)
        if number is None:
            number = self._send(request)
        while (answer := self._pending.take(number)) is None:
            self._send_ahead(following)
            message = self._receive(f"estimating {request['key']}")
            if not self._pending.note(message):
                raise self._lost(f"the worker answered for {message.get('key')}, which it was not asked for")
        self.is_spent = answer.get("is_last", False)
        return answer

    def answers_ahead(self) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """What has come for requests that were sent ahead, and was not asked for yet."""
        return self._pending.answers()

    def has(self, request: Mapping[str, Any]) -> bool:
        """Whether ``request`` was sent ahead."""
        return self._pending.number_of(request) is not None

    def unanswered(self) -> list[Mapping[str, Any]]:
        """The requests that were sent and have no answer."""
        return self._pending.unanswered()

    def begun(self) -> list[Mapping[str, Any]]:
        """The requests that are running, for all that is known."""
        return self._pending.begun()

    def close(self) -> None:
        """End the process, whatever it does, and the tests that it runs."""
        end_process(self._process, self._channel)
        self._output.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _begin(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # what it has said before it ended is read below
            self._channel.send(self._message())
        self._receive("starting the session", _START_GRACE)
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        self.imported_bytes, self.card = ready["imported_bytes"], ready["card"]

    def _message(self) -> dict[str, Any]:
        order = self._order
        return {
            "args": list(order.args),
            "dir": order.dir,
            "files": list(order.files),
            "gpu": order.gpu,
            "records": order.records,
            "device": order.device,
            "scratch": self._scratch,
            "observes": order.observes,
            "at_once": order.at_once,
        }

    def _send(self, request: Mapping[str, Any]) -> int:
        try:
            return self._pending.send(request, timeout=self._order.timeout)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def _send_ahead(self, following: Callable[[], Mapping[str, Any] | None]) -> None:
        most = self._order.at_once + _IN_STORE if self._order.at_once > 1 else 1
        while len(self._pending.unanswered()) < most and self._pending.has_room():
            request = following()
            if request is None:
                return
            self._send(request)

    def _receive(self, doing: str, grace: float = _GRACE) -> dict[str, Any]:
        """What the process says next; it says something within the time limit of a test and ``grace``."""
        try:
            message = self._channel.receive(self._order.timeout + grace)
        except TimeoutError:
            limit = f"{self._order.timeout:g} s ([tool.membudget] timeout)"
            raise self._lost(f"the worker did not answer within {limit} while {doing}") from None
        if message is None:
            self._process.wait()
            raise self._lost(f"the worker {end_text(self._process.returncode)} while {doing}")
        if message["event"] == "failed":
            raise self._lost(message["reason"])
        return message

    def _lost(self, what: str) -> WorkerFailure:
        return WorkerFailure(with_tail(what, self._output), collecting=self._collecting)
