"""The conversation with workers: which one is asked for a test, what is sent ahead, and what a loss costs."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from ...cache.estimates import EstimateCache
from ...errors import WorkerFailure
from ...results.answer import Answer, Request
from ..processes import WORKER_MODULE, Process, end_process, end_text, start_process, with_tail
from ..protocol import FAILED, RUNNING, Channel, Message, Task
from ..time_limit import Watch
from .order import Order, worker_environment, worker_import_path
from .template import copied
from .variants import following_variant

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
        with ExitStack() as made:
            self._output = made.enter_context(tempfile.TemporaryFile())
            self._scratch = tempfile.mkdtemp(prefix="membudget-")
            made.callback(shutil.rmtree, self._scratch, ignore_errors=True)
            self._process, self._channel = self._started()
            self._made = made.pop_all()  # until ``close``
        #: requests that were sent and not answered yet, by number; answers arrive in completion order
        self.pending: dict[int, Request] = {}
        self._numbers = itertools.count(1)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _started(self) -> tuple[Process, Channel]:
        """Its process: a copy of the template, or a separate one."""
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
        task = Task(next(self._numbers), request)
        self.pending[task.number] = request
        try:
            self._channel.send(task.to_json(), reads=True)
        except BrokenPipeError:
            raise self._lost("the worker was gone") from None

    def receive(self, awaited: Request) -> tuple[Request, Answer]:
        """The next answer, and the request that it is for: ``awaited`` or another one that was sent.

        Raises ``WorkerFailure`` if the worker is lost; then start another one. After any other exception
        too, since answers are still to come.
        """
        message = self._receive(f"estimating {awaited.key}")
        request = self.pending.pop(message.number, None)
        if request is None or message.answer is None:
            raise self._lost("the worker answered what it was not asked")
        return request, message.answer

    def close(self) -> None:
        """Kill the process and the tests that it runs."""
        end_process(self._process, self._channel)
        self._made.close()

    def _begin(self) -> None:
        with suppress(BrokenPipeError):  # messages that it sent before it ended are read below
            self._channel.send(self._order.start(self._scratch).to_json())
        self._receive("starting the session", _START_GRACE)
        self._collecting = True
        ready = self._receive("importing the test files")
        self._collecting = False
        #: device memory that was allocated when the test files were imported, in bytes
        self.imported_bytes = ready.imported_bytes
        #: what its device says of itself: its properties, or why they could not be read
        self.card = ready.answer
        #: the node ids of the tests with budgets that it has collected, by file and key
        self.marked = ready.marked

    def _receive(self, doing: str, grace: float = _GRACE) -> Message:
        """The next message, within the time limit of a test plus ``grace`` seconds.

        A heartbeat starts the limit again: the worker enforces the time limits of its tests.
        """
        watch = Watch(self._process.pid, self._order.timeout + grace)
        while True:
            try:
                received = self._channel.receive(watch.wait_seconds())
            except TimeoutError:
                overrun = watch.look()
                if overrun is not None:
                    late = overrun.text("answer")
                    raise self._lost(f"the worker did not answer while {doing}: {late}") from None
                continue
            if received is None:
                self._process.wait()
                raise self._lost(f"the worker {end_text(self._process.returncode)} while {doing}")
            message = Message.from_json(received)
            if message.event == FAILED:
                raise self._lost(message.reason)
            if message.event != RUNNING:
                return message
            watch = Watch(self._process.pid, self._order.timeout + grace)

    def _lost(self, what: str) -> WorkerFailure:
        return WorkerFailure(with_tail(what, self._output), collecting=self._collecting)


class Workers:
    """Workers of one order. A worker that is lost costs only its own test the answer.

    Device memory that a test module allocates on import must count for its own tests only. If there is any,
    each file gets its own worker; also if collecting all files has ended the worker, which finds the file
    that did it.

    Expected requests are sent ahead if several tests may run at once. If a worker is lost while several are
    pending, each of them runs again alone, which finds the test that did it.
    """

    def __init__(
        self,
        order: Order,
        cache: EstimateCache | None = None,
        start: Callable[[Order], Worker] = Worker,
        uncollected: dict[str, list[str]] | None = None,
    ) -> None:
        """``cache``: answers of earlier sessions. ``start``: starts a worker.

        ``uncollected``: receives the node ids of tests that only workers have collected, by file.
        """
        self._order = order if cache is None else replace(order, observes=True)
        self._cache = cache
        self._start = start
        self._uncollected = {} if uncollected is None else uncollected
        #: how many answers were not from the cache
        self.asked = 0
        self._worker: Worker | None = None
        self._file: str | None = None
        self._by_file = False
        #: why no worker can start, by file, or for all of them under None
        self._refusals: dict[str | None, str] = {}
        #: requests that will be made, in this order, and were not sent yet
        self._expected: deque[Request] = deque()
        #: answers of workers that came before ``ask``
        self._ahead: dict[Request, Answer] = {}
        #: requests that were pending when a worker was lost: each runs alone now
        self._suspects: set[Request] = set()

    @property
    def at_once(self) -> int:
        """How many requests run at the same time."""
        return self._order.processes

    def expect(self, requests: Sequence[Request], *, next_: bool = False) -> None:
        """Announce requests that ``ask`` will be called with: after those announced before, or ``next_``."""
        if self.at_once == 1:
            return
        new = [one for one in requests if one not in self._ahead and not self._is_pending(one)]
        for one in new:
            self.forget(one)
        if next_:
            self._expected.extendleft(new[::-1])
        else:
            self._expected += new

    def expect_where_idle(self, request: Request, asked: Request) -> bool:
        """Announce ``request``, which ``ask`` may not be called with, if nothing but ``asked`` waits.

        Returns whether it was.
        """
        is_idle = self.at_once > 1 and not {*self._expected} - {asked}
        if is_idle:
            self.expect([request])
        return is_idle

    def _is_pending(self, request: Request) -> bool:
        return self._worker is not None and request in self._worker.pending.values()

    def forget(self, request: Request) -> None:
        """``ask`` will not be called with ``request``, though it was expected."""
        if request in self._expected:
            self._expected.remove(request)

    def ask(self, request: Request) -> Answer:
        """The answer to ``request``. Raises ``WorkerFailure`` if the worker is lost."""
        if request in self._expected:
            self._expected.remove(request)
        answer = self._ahead.pop(request, None)
        if answer is None and not self._is_pending(request) and (found := self._found(request)) is not None:
            return found
        self.asked += 1
        refusal = self._refusals.get(None) or self._refusals.get(request.file)
        if refusal is not None:
            raise WorkerFailure(refusal)
        if answer is None:
            answer = self._ask_worker(request)
        # with a worker for each file, what depends on other files cannot be cached
        # not cached: the next session must also report tests that only workers collect
        if self._cache is not None and not self._by_file and request.file not in self._uncollected:
            self._cache.keep(request, answer)
        return answer

    def collect(self, files: Sequence[str]) -> None:
        """Collect ``files`` in a worker."""
        for file in files:
            with suppress(WorkerFailure):  # reported by the file's tests
                self._worker_for(file)

    def card_for(self, file: str) -> Answer | None:
        """The device of the worker that runs ``file``'s tests; None if no worker starts."""
        try:
            return self._worker_for(file).card
        except WorkerFailure:  # reported by the tests
            return None

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _ask_worker(self, request: Request) -> Answer:
        try:
            answer = self._answer_of(self._worker_for(request.file), request)
        except WorkerFailure:
            pending = [*self._worker.pending.values()] if self._worker is not None else []
            self.close()
            others = [other for other in pending if other != request]
            self._expected.extendleft(others[::-1])  # they are sent again
            if not others or request in self._suspects:
                raise
            self._suspects.update(pending)
            return self._ask_worker(request)
        except BaseException:
            self.close()  # the worker is lost, or its late answer would be taken for the next test's
            raise
        if answer.is_last:
            self.close()
        return answer

    def _answer_of(self, worker: Worker, request: Request) -> Answer:
        if request not in worker.pending.values():
            worker.send(request)
        while True:
            while worker.has_room() and (following := self._following(request)) is not None:
                worker.send(following)
            answered, answer = worker.receive(request)
            if answered == request:
                return answer
            self._ahead[answered] = answer
            following = following_variant(answered, answer)
            if following is not None and answered.world_size == 1 and answered.change is None:
                self.expect([following], next_=True)

    def _found(self, request: Request) -> Answer | None:
        return self._cache.find(request) if self._cache is not None else None

    def _following(self, request: Request) -> Request | None:
        """The expected requests after ``request`` to the same worker that have no answer yet."""
        if request in self._suspects:
            return None
        while self._expected:
            following = self._expected[0]
            is_elsewhere = self._by_file and following.file != request.file
            if is_elsewhere or following in self._suspects:
                return None
            self._expected.popleft()
            if self._found(following) is None:
                return following
        return None

    def _worker_for(self, file: str) -> Worker:
        if self._worker is not None and self._file not in (None, file):
            self.close()
        if self._worker is None:
            self._worker = self._start_for(file)
            self._see_uncollected(self._worker.marked)
            self._file = file if self._by_file else None
        return self._worker

    def _see_uncollected(self, marked: Mapping[str, Mapping[str, str]]) -> None:
        for file, collected in self._order.collected.items():
            own = [nodeid for key, nodeid in marked.get(file, {}).items() if key not in collected]
            if own:
                self._uncollected[file] = own

    def _start_for(self, file: str) -> Worker:
        """A worker that has collected all files, or ``file`` alone if each needs its own."""
        order = replace(self._order, files=[file]) if self._by_file else self._order
        several = len(order.files) > 1
        try:
            worker = self._start(order)
        except WorkerFailure as error:
            if not several or not error.collecting:
                self._refusals[file if self._by_file else None] = str(error)
                raise
        else:
            if not several or not worker.imported_bytes:
                return worker
            worker.close()
        self._by_file = True
        return self._start_for(file)
