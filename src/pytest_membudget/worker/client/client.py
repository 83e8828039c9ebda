"""Talks to a worker process, which runs single tests: several of them at once where its order says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import WorkerFailure
from ..exit_status import end_text
from .pending_requests import InFlight
from .process_start import with_tail
from .worker_start import CUDA, CUDA_GROUP, STAND_IN, VIRTUAL, Order, WorkerStart, import_path

__all__ = ["CUDA", "CUDA_GROUP", "STAND_IN", "VIRTUAL", "Order", "Worker", "WorkerStart"]

#: Seconds that the worker's own time limit gets to work before this side gives up on the worker.
_GRACE = 30.0
#: The same of a start: torch's CUDA build is imported, on a busy host perhaps.
_START_GRACE = 120.0
#: Requests that a worker has beside those that it runs, so that it need not wait for the next.
_IN_STORE = 2
_STARTING = "starting the session"


class Worker:
    """A worker process; ended by ``close``."""

    def __init__(self, order: Order, start: WorkerStart | None = None) -> None:
        """``start``: a process that was started before; used if a new one would be the same, else ended."""
        self._order = order
        self._collecting = False
        #: device memory that the test files hold since their import
        self.imported_bytes = 0
        #: what it says of its device
        self.card: Mapping[str, Any] = {}
        #: it uses the device already
        self.is_awake = False
        #: it has run a test in its own process, and can run no other
        self.is_spent = False
        self._start = self._usable(start) or WorkerStart(order)
        self._channel = self._start.channel
        self._in_flight = InFlight(self._channel)
        try:
            self._begin(is_ready=self._start is start)
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
        number = self._in_flight.number_of(request)
        if number is None:
            number = self._send(request)
        while (answer := self._in_flight.take(number)) is None:
            self._send_ahead(following)
            message = self._receive(f"estimating {request['key']}")
            if not self._in_flight.note(message):
                raise self._lost(f"the worker answered for {message.get('key')}, which it was not asked for")
        self.is_spent = answer.get("is_last", False)
        return answer

    def answers_ahead(self) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
        """What has come for requests that were sent ahead, and was not asked for yet."""
        return self._in_flight.answers()

    def has(self, request: Mapping[str, Any]) -> bool:
        """Whether ``request`` was sent ahead."""
        return self._in_flight.number_of(request) is not None

    def unanswered(self) -> list[Mapping[str, Any]]:
        """The requests that were sent and have no answer."""
        return self._in_flight.unanswered()

    def begun(self) -> list[Mapping[str, Any]]:
        """The requests that are running, for all that is known."""
        return self._in_flight.begun()

    def close(self) -> None:
        """End the process, whatever it does, and the tests that it runs."""
        self._start.close()

    def _usable(self, start: WorkerStart | None) -> WorkerStart | None:
        """``start`` if it has come to where it waits for its files, and may go on from there."""
        if start is None:
            return None
        try:
            if start.is_for(self._order):
                names = self._heard_of(start, _STARTING, _START_GRACE)["names"]
                if start.finds_the_same(set(names)):
                    return start
        except WorkerFailure:  # perhaps for its early start alone: a later one will tell
            pass
        except BaseException:
            start.close(0)
            raise
        start.close(0)
        return None

    def _begin(self, *, is_ready: bool) -> None:
        if not is_ready:
            self._receive(_STARTING, _START_GRACE)
        try:
            self._channel.send({"files": list(self._order.files), "import_path": import_path()})
        except BrokenPipeError:
            raise self._lost("the worker was gone before it had begun") from None
        self._receive(_STARTING, _START_GRACE)
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        self.imported_bytes, self.card = ready["imported_bytes"], ready["card"]
        self.is_awake = ready["is_awake"]

    def _send(self, request: Mapping[str, Any]) -> int:
        try:
            return self._in_flight.send(request, timeout=self._order.timeout)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def _send_ahead(self, following: Callable[[], Mapping[str, Any] | None]) -> None:
        most = self._order.at_once + _IN_STORE if self._order.at_once > 1 else 1
        while len(self._in_flight.unanswered()) < most and self._in_flight.has_room():
            request = following()
            if request is None:
                return
            self._send(request)

    def _receive(self, doing: str, grace: float = _GRACE) -> dict[str, Any]:
        return self._heard_of(self._start, doing, grace)

    def _heard_of(self, start: WorkerStart, doing: str, grace: float) -> dict[str, Any]:
        """What the process says next; it says something within the time limit of a test and ``grace``."""
        try:
            message = start.channel.receive(self._order.timeout + grace)
        except TimeoutError:
            limit = f"{self._order.timeout:g} s ([tool.membudget] timeout)"
            raise self._lost(f"the worker did not answer within {limit} while {doing}", start) from None
        if message is None:
            start.process.wait()
            raise self._lost(f"the worker {end_text(start.process.returncode)} while {doing}", start)
        if message["event"] == "failed":
            raise self._lost(message["reason"], start)
        return message

    def _lost(self, what: str, start: WorkerStart | None = None) -> WorkerFailure:
        output = (start or self._start).output
        return WorkerFailure(with_tail(what, output), collecting=self._collecting)
