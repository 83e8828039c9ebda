"""The estimator that runs tests on CUDA cards that are not there."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...budgets.budget import Budget
from ...budgets.marked_test import MarkedTest
from ...budgets.node_ids import file_name_of
from ...budgets.verdict import OUT_OF_MEMORY
from ...cache.estimates import EstimateCache
from ...errors import WorkerFailure
from ...hardware.machines import gpus_a_machine
from ...memory_report import MemoryReport
from ...results.advice import EXPANDABLE_SEGMENTS, Advice, Change, excess_of, savings_first, worth_trying
from ...results.answer import Answer, Request, failed, read_answer
from ...results.estimator import Estimator, Remarks, without_figure
from ...results.test_result import TestResult
from ..ranks.rank_answers import Asking, answer_of_ranks
from .order import Order, for_program, with_expandable_segments
from .trials import Say, figure_of, tried
from .variants import ask_with_variants, variants_of
from .worker import Worker
from .workers import Workers


class TracingEstimator(Estimator):
    """Workers for each kind and number of cards that tests need.

    Modules may read the number while they are imported, for skip marks and parameters; PyTorch reads the
    properties of its cards once.
    """

    def __init__(
        self,
        order: Order,
        cache_for: Callable[[Order], EstimateCache | None] = lambda order: None,
        snapshots: Path | None = None,
        start: Callable[[Order], Worker] = Worker,
    ) -> None:
        """``order``: for the session's default card. ``cache_for``: makes the cache for an order's workers.

        ``snapshots``: the folder in whose ``snapshots`` each test leaves one; None for none.
        ``start``: starts a worker.
        """
        self._order = order
        self._cache_for = cache_for
        self._snapshots = snapshots
        self._start = start
        self._workers: dict[tuple[object, ...], Workers] = {}
        self._seconds_for_trials = order.timeout
        #: keys of the tests that ran out of their card's memory
        self._out_of_memory: set[str] = set()

    def expect(self, test: MarkedTest) -> None:
        """Send the request of ``test`` ahead, if several tests may run at once."""
        if test.budget is not None:  # of several ranks rank 0 alone: others may need what it broadcasts
            request, gpus = self._request(test, test.budget), test.budget.gpus
            first = request if gpus == 1 else request.of_rank(0, gpus)
            self._workers_for(test, test.budget).expect([first])

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of ``test``, with a report of each rank that decides its verdict."""
        budget = test.budget
        assert budget is not None
        workers = self._workers_for(test, budget)
        asked = workers.asked
        request = self._request(test, budget)
        try:
            if budget.gpus == 1:
                answer = ask_with_variants(workers.ask, request)
            else:
                answer = _answer_of_ranks(workers, request, budget)
        except WorkerFailure as error:
            return without_figure(test, str(error))
        if answer.outcome == OUT_OF_MEMORY:
            self._out_of_memory.add(test.key)
        return replace(read_answer(test, answer, _snapshot_of(test)), cached=workers.asked == asked)

    def advise(self, test: MarkedTest, estimate: MemoryReport, say: Say) -> Advice | None:
        """Try changes that may reduce the memory of ``test``; None for tests on several GPUs."""
        budget = test.budget
        if budget is None or budget.gpus > 1:
            return None
        began, ran_out = time.monotonic(), test.key in self._out_of_memory
        request, report = replace(self._request(test, budget), snapshot=None), estimate
        if ran_out:  # the test and its trials are then run on a card without a limit
            request = replace(request, limited=False)
            again, _ = figure_of(self._workers_for(test, budget), request)
            if again is None:
                return None
            report = again
        excess = excess_of(budget, report, ran_out=ran_out)
        if excess is None:
            return None
        asked = [
            (one, self._workers_for(test, budget, one), replace(request, change=one.name))
            for one in worth_trying(excess, test.fixtures)
        ]
        found, untried = tried(asked, excess, say, self._seconds_for_trials)
        self._seconds_for_trials -= time.monotonic() - began
        listed = savings_first(found, excess.bytes, excess.excess_bytes)
        return Advice(excess.bytes, excess.limit_bytes, {**listed, **dict.fromkeys(untried)})

    def record(self, test: MarkedTest, folder: Path) -> tuple[str | None, str]:
        """Run ``test`` again, and leave its snapshot in ``folder``'s ``snapshots``."""
        budget = test.budget
        if budget is None or budget.gpus > 1:
            return None, ""
        try:
            answer = self._workers_for(test, budget).ask(self._request(test, budget, folder))
        except WorkerFailure as error:
            return None, str(error).partition("\n")[0]
        return (_snapshot_of(test) if answer.has_snapshot else None), answer.snapshot_error

    def remarks(self) -> Remarks:
        """What could not be cached, and the tests with budgets that only workers have collected."""
        caches, workers = self._caches(), self._workers.values()
        uncollected = {nodeid for one in workers for own in one.uncollected.values() for nodeid in own}
        return Remarks(
            next((cache.trouble for cache in caches if cache.trouble), ""),
            {test: why for cache in caches for test, why in cache.not_cached.items()},
            sorted(uncollected),
        )

    def collect(self, files: Sequence[str]) -> None:
        """Collect ``files`` in a worker."""
        self._workers_of(self._order).collect(files)

    def close(self) -> None:
        """End the workers."""
        for workers in self._workers.values():
            workers.close()
        for cache in self._caches():
            cache.close()

    def _caches(self) -> list[EstimateCache]:
        return [workers.cache for workers in self._workers.values() if workers.cache is not None]

    def _request(self, test: MarkedTest, budget: Budget, folder: Path | None = None) -> Request:
        folder = folder or self._snapshots
        snapshot = os.path.abspath(folder / _snapshot_of(test)) if folder is not None else None
        return Request.of(test, budget, self._order.gpu, snapshot)

    def _workers_for(self, test: MarkedTest, budget: Budget, change: Change | None = None) -> Workers:
        """Workers that run ``test``, or a trial of ``change``."""
        cards = gpus_a_machine(budget.gpus, os.environ)
        order = replace(self._order, gpu=budget.gpu or self._order.gpu, cards=cards)
        order = for_program(order, test.program)
        return self._workers_of(with_expandable_segments(order) if change is EXPANDABLE_SEGMENTS else order)

    def _workers_of(self, order: Order) -> Workers:
        key = (order.gpu, order.cards, order.environment)
        if key not in self._workers:
            self._workers[key] = Workers(order, self._cache_for(order), self._start)
        return self._workers[key]


def _answer_of_ranks(workers: Workers, request: Request, budget: Budget) -> Answer:
    def ask_once(rank: int, received: str) -> Answer:
        return workers.ask_alone(request.of_rank(rank, budget.gpus, received))

    #: variants of which a rank had to run in full: of the next ranks their figures alone are not asked for
    in_full: set[int] = set()

    def ask_further(further: Request) -> Answer:
        if not further.figures_only and further.variant not in in_full:
            in_full.add(further.variant)
            workers.expect_in_full(further)
        return workers.ask(further)

    def ask(rank: int, received: str, known: Answer | None) -> Answer:
        first, asked = known or ask_once(rank, received), request.of_rank(rank, budget.gpus, received)
        further = variants_of(asked, first, in_full)
        workers.expect(further, next_=True)
        try:
            return ask_with_variants(ask_further, asked, first, in_full)
        except WorkerFailure as error:
            return failed(str(error))
        finally:
            for one in further:
                workers.forget(one)

    def expect(received: Mapping[int, str]) -> None:
        workers.expect([request.of_rank(rank, budget.gpus, received[rank]) for rank in received], next_=True)

    announced: list[Request] = []

    def expect_further(known: Mapping[int, tuple[str, Answer]]) -> None:
        for rank, (received, answer) in known.items():
            announced.extend(variants_of(request.of_rank(rank, budget.gpus, received), answer, in_full))
        workers.expect(announced, next_=True)

    first, last = (request.of_rank(rank, budget.gpus) for rank in (0, budget.gpus - 1))
    ahead = (last.rank,) if workers.expect_where_idle(last, first) else ()
    try:
        asking = Asking(ask, ask_once, expect, expect_further, workers.at_once, ahead)
        return answer_of_ranks(budget, asking)
    finally:
        for one in (last, *announced):
            workers.forget(one)


def _snapshot_of(test: MarkedTest) -> str:
    """The path of its snapshot, relative to the report's folder."""
    return f"snapshots/{file_name_of(test.nodeid)}.pickle"
