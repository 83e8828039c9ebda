"""The conversation with workers: which one is asked for a test, what is sent ahead, and what a loss costs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ...cache.estimates import EstimateCache
from ...errors import WorkerFailure
from ...results.answer import Answer, Request, failed
from .order import Order
from .variants import variants_of
from .worker import Worker

#: Processes that have imported files for single runs, of which each run of a rank may need one.
_MOST_IMPORTING: Final = 8


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
    ) -> None:
        """``cache``: answers of earlier sessions. ``start``: starts a worker."""
        self._order = order if cache is None else replace(order, observes=True)
        self.cache = cache
        #: how many requests run at the same time
        self.at_once = order.processes
        self._start = start
        #: node ids of tests that only workers have collected, by file
        self.uncollected: dict[str, list[str]] = {}
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
        #: those that import files for single runs, by what they import them as
        self._importing: dict[tuple[object, ...], Workers] = {}
        #: requests that were pending when a worker was lost: each runs alone now
        self._suspects: set[Request] = set()

    def expect(self, requests: Sequence[Request], *, next_: bool = False) -> None:
        """Announce requests that ``ask`` will be called with: after those announced before, or ``next_``."""
        if self.at_once == 1:
            return
        sent = (one for one in requests if not one.varies_imports)  # others are another worker's
        new = [one for one in sent if one not in self._ahead and not self._is_pending(one)]
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
        """``ask`` will not be called with ``request``, though it was expected, for figures or in full."""
        for one in {request, replace(request, figures_only=False)} & {*self._expected}:
            self._expected.remove(one)

    def expect_in_full(self, request: Request) -> None:
        """Of the expected runs of ``request``'s test and variant not the figures alone are asked for."""
        for place, one in enumerate(self._expected):
            if (one.key, one.variant) == (request.key, request.variant):
                self._expected[place] = replace(one, figures_only=False)

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
        if self.cache is not None and not self._by_file and request.file not in self.uncollected:
            self.cache.keep(request, answer)
        return answer

    def ask_alone(self, request: Request) -> Answer:
        """The answer to ``request`` alone, also where the worker is lost: others' may go on."""
        try:
            return self.ask(request)
        except WorkerFailure as error:
            return failed(str(error))

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
        """End the workers."""
        self._close_own()
        for importing in self._importing.values():
            importing.close()
        self._importing.clear()

    def _close_own(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _importing_for(self, request: Request) -> Workers | None:
        """Those that import files for ``request`` anew: with its variant's answers, or as its rank."""
        place: dict[str, Any] = {}
        if request.varies_imports:
            place |= {"variant": request.variant, "limited": request.limited}
        if self._asks_place(request):
            place |= {"rank": request.rank, "world_size": request.world_size}
        if not place:
            return None
        key = (*place.items(),)
        if key not in self._importing:
            while len(self._importing) >= _MOST_IMPORTING:
                self._importing.pop(next(iter(self._importing))).close()
            records = self._worker.scratch if self._worker is not None else ""
            order = replace(self._order, records=self._order.records or records, **place)
            self._importing[key] = Workers(order, start=self._start)
        return self._importing[key]

    def _asks_place(self, request: Request) -> bool:
        """Whether the files ask for the rank that ``request`` is while they are imported."""
        is_launched = request.world_size > 1 or request.launched
        return is_launched and self._worker_for(request.file).asks_place

    def _ask_worker(self, request: Request) -> Answer:
        try:
            importing = self._importing_for(request)
            if importing is not None:
                return importing.ask_alone(replace(request, varies_imports=False))
            answer = self._answer_of(self._worker_for(request.file), request)
        except WorkerFailure:
            pending = [*self._worker.pending.values()] if self._worker is not None else []
            self._close_own()
            others = [other for other in pending if other != request]
            self._expected.extendleft(others[::-1])  # they are sent again
            if not others or request in self._suspects:
                raise
            self._suspects.update(pending)
            return self._ask_worker(request)
        except BaseException:
            self._close_own()  # the worker is lost, or its late answer would be taken for the next test's
            raise
        if answer.is_last:
            self._close_own()
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
            if answered.world_size == 1 and answered.change is None:
                self.expect(variants_of(answered, answer)[:1], next_=True)

    def _found(self, request: Request) -> Answer | None:
        return self.cache.find(request) if self.cache is not None else None

    def _following(self, request: Request) -> Request | None:
        """The expected requests after ``request`` to the same worker that have no answer yet."""
        if request in self._suspects:
            return None
        while self._expected:
            following = self._expected[0]
            is_elsewhere = self._by_file and following.file != request.file
            is_elsewhere = is_elsewhere or self._asks_place(following)
            if is_elsewhere or following in self._suspects:
                return None
            self._expected.popleft()
            if self._found(following) is None:
                return following
        return None

    def _worker_for(self, file: str) -> Worker:
        if self._worker is not None and self._file not in (None, file):
            self._close_own()
        if self._worker is None:
            self._worker = self._start_for(file)
            self._see_uncollected(self._worker.marked)
            self._file = file if self._by_file else None
        return self._worker

    def _see_uncollected(self, marked: Mapping[str, Mapping[str, str]]) -> None:
        for file, collected in self._order.collected.items():
            own = [nodeid for key, nodeid in marked.get(file, {}).items() if key not in collected]
            if own:
                self.uncollected[file] = own

    def _ready(self, order: Order) -> Worker:
        worker = self._start(order)
        try:
            worker.wait_until_ready()
        except BaseException:
            worker.close()
            raise
        return worker

    def _start_for(self, file: str) -> Worker:
        """A worker that has collected all files, or ``file`` alone if each needs its own."""
        order = replace(self._order, files=[file]) if self._by_file else self._order
        several = len(order.files) > 1
        try:
            worker = self._ready(order)
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
