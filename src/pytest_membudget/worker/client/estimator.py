"""Estimates single tests through workers: one worker for all, another where the first is lost."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...budgets.budget import Budget
from ...budgets.node_ids import name_of_rank
from ...budgets.recorded_properties import Property
from ...budgets.verdict import ERROR, OVER, SKIPPED, Verdict, judge
from ...cache.estimates import EstimateCache
from ...errors import WorkerFailure
from ...hardware.gpus import find_gpu
from ...hardware.machines import Machine, fullest_machine, gpus_a_machine
from ...memory_report import MemoryReport
from ..ranks.rank_estimates import answer_of_ranks
from .client import Worker
from .order import Order

Request = Mapping[str, Any]
#: A request as a key.
Ident = frozenset[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was found out about one test before it runs."""

    verdict: Verdict
    reports: tuple[MemoryReport, ...] = ()
    details: str = ""
    """More than a line on why there is no figure."""
    raised: bool = False
    """The test's own code raised."""
    properties: tuple[Property, ...] = ()
    """What the test has recorded."""
    has_snapshot: bool = False
    """Its snapshot was written."""
    snapshot_error: str = ""
    """Why its snapshot could not be written."""
    snapshot_rank: int | None = None
    """Of several ranks the one whose snapshot is named; each has its own."""
    host_bytes: int | None = None
    """Host memory of the machine whose ranks hold most of it; None where nothing was found out about it."""
    cached: bool = False
    """All of it is an earlier session's."""


class Estimator:
    """Asks workers for estimates; a worker that is lost costs its own test the estimate, no other.

    Device memory that test modules allocate when they are imported is there for their own tests only, as
    in a process that runs them alone: where there is any, each file gets a worker of its own. So it does
    where collecting them all has ended the worker: then only one of them is to blame.

    What is expected is sent ahead where the order lets several tests run at once. When a worker is lost under
    several, each of them is asked again alone, so that one is to blame.
    """

    def __init__(self, order: Order, cache: EstimateCache | None = None) -> None:
        self._order = order if cache is None else replace(order, observes=True)
        self._cache = cache
        self._has_asked = False
        self._worker: Worker | None = None
        self._file: str | None = None
        self._by_file = False
        #: why no worker can start, by file, or for all of them under None
        self._refusals: dict[str | None, str] = {}
        #: what will be asked, in this order, and was not sent yet
        self._expected: deque[Request] = deque()
        #: answers that have come before they were asked for, and whether a worker gave them
        self._ahead: dict[Ident, tuple[dict[str, Any], bool]] = {}
        #: one of them has ended a worker
        self._suspects: set[Ident] = set()

    def expect(self, key: str, file: str, budget: Budget, snapshot: str | None = None) -> None:
        """``estimate`` will be called with these, after all that it was said of before."""
        if self._order.at_once > 1:
            request = request_for(key, file, budget, self._order.gpu, snapshot)
            self._expected += _first_requests(request, budget)

    def estimate(self, key: str, file: str, budget: Budget, snapshot: str | None = None) -> Estimate:
        """The estimate of the test ``key`` (``key_of``) in ``file``, held to its ``budget``.

        ``snapshot``: where to write its snapshot, if its order records.
        """
        request = request_for(key, file, budget, self._order.gpu, snapshot)
        self._has_asked = False
        try:
            if budget.gpus == 1:
                answer = self._ask(request)
            else:
                answer = answer_of_ranks(
                    budget,
                    lambda rank, heard: self._ask_rank(_of_rank(request, rank, budget.gpus, heard)),
                    lambda ranks, heard: self._expect_ranks(
                        [_of_rank(request, rank, budget.gpus, heard) for rank in ranks]
                    ),
                )
        except WorkerFailure as error:
            return _failed(str(error))
        return replace(read_answer(budget, answer), cached=not self._has_asked)

    def _ask_rank(self, request: Request) -> dict[str, Any]:
        try:
            return self._ask(request)
        except WorkerFailure as error:
            return {"outcome": "error", "reason": str(error)}

    def _expect_ranks(self, requests: Sequence[Request]) -> None:
        if self._order.at_once > 1:
            self._expected.extendleft(requests[::-1])

    def _ask(self, request: Request) -> dict[str, Any]:
        if request in self._expected:
            self._expected.remove(request)
        answer, is_new = self._ahead.pop(_ident(request), (None, True))
        if answer is None and not self._is_on_its_way(request):
            answer = self._cache.find(request) if self._cache is not None else None
            is_new = answer is None
        if answer is not None and not is_new:
            return answer
        self._has_asked = True
        return self._ask_anew(request, answer)

    def _is_on_its_way(self, request: Request) -> bool:
        return self._worker is not None and self._worker.has(request)

    def _ask_anew(self, request: Request, answer: dict[str, Any] | None) -> dict[str, Any]:
        """The ``answer`` of a worker, where it has none yet; kept for later sessions."""
        refusal = self._refusals.get(None) or self._refusals.get(request["file"])
        if refusal is not None:
            raise WorkerFailure(refusal)
        if answer is None:
            answer = self._ask_worker(request)
        # a file that has a worker of its own has it because of what other files do
        if self._cache is not None and not self._by_file:
            self._cache.keep(request, answer)
        return answer

    def _ask_worker(self, request: Request) -> dict[str, Any]:
        try:
            worker = self._worker_for(request["file"])
            answer = worker.ask(request, lambda: self._following(request))
        except WorkerFailure:
            suspects = self._worker.begun() if self._worker is not None else []
            self._close_lost(request)
            if suspects in ([], [request]) or _ident(request) in self._suspects:
                raise
            self._suspects.update(map(_ident, suspects))
            return self._ask_worker(request)
        except BaseException:
            self.close()  # it is lost, or the answer is still to come and would be taken for the next test's
            raise
        if worker.is_spent:
            self.close()
        return answer

    def _following(self, request: Request) -> Request | None:
        """What will be asked after ``request`` of the same worker, and is not known yet."""
        if _ident(request) in self._suspects:
            return None
        while self._expected:
            following = self._expected[0]
            is_elsewhere = self._by_file and following["file"] != request["file"]
            if is_elsewhere or _ident(following) in self._suspects:
                return None
            self._expected.popleft()
            found = self._cache.find(following) if self._cache is not None else None
            if found is None:
                return following
            self._ahead[_ident(following)] = found, False
        return None

    def _close_lost(self, request: Request) -> None:
        """End a worker that is lost under ``request``; what it has said of others holds."""
        if self._worker is None:
            return
        for other, answer in self._worker.answers_ahead():
            self._ahead[_ident(other)] = answer, True
        others = [other for other in self._worker.unanswered() if other != request]
        self._expected.extendleft(others[::-1])
        self.close()

    def card_for(self, file: str) -> Mapping[str, Any] | None:
        """What the worker that runs ``file``'s tests says of its device; None if there is no such worker."""
        try:
            return self._worker_for(file).card
        except WorkerFailure:  # its tests report it
            return None

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _worker_for(self, file: str) -> Worker:
        if self._worker is not None and self._file not in (None, file):
            self.close()
        if self._worker is None:
            self._worker = self._start_for(file)
            self._file = file if self._by_file else None
        return self._worker

    def _start_for(self, file: str) -> Worker:
        if not self._by_file:
            worker = self._start_for_all()
            if worker is not None:
                return worker
            self._by_file = True
        try:
            return Worker(replace(self._order, files=[file]))
        except WorkerFailure as error:
            self._refusals[file] = str(error)
            raise

    def _start_for_all(self) -> Worker | None:
        """A worker that has collected all files; None if each file needs its own."""
        several = len(self._order.files) > 1
        try:
            worker = Worker(self._order)
        except WorkerFailure as error:
            if several and error.collecting:
                return None
            self._refusals[None] = str(error)
            raise
        if several and worker.imported_bytes:
            worker.close()
            return None
        return worker


def _ident(request: Request) -> Ident:
    return frozenset(request.items())


def _of_rank(request: Request, rank: int, world_size: int, heard: str = "") -> Request:
    """``request`` for one of several ranks; ``heard``: what rank 0 has broadcast."""
    own = {**request, "rank": rank, "world_size": world_size, **({"heard": heard} if heard else {})}
    if request["snapshot"] is not None:
        own["snapshot"] = name_of_rank(request["snapshot"], rank)
    return own


def _first_requests(request: Request, budget: Budget) -> list[Request]:
    """What is asked first for ``request``: whether there will be more depends on the answers."""
    if budget.gpus == 1:
        return [request]
    named = budget.named_ranks
    ranks = [0] if named is None or 0 in named else named  # the others hear what rank 0 says
    return [_of_rank(request, rank, budget.gpus) for rank in ranks]


def _failed(reason: str) -> Estimate:
    first, _, rest = reason.partition("\n")
    return Estimate(Verdict(ERROR, first), details=rest)


def request_for(
    key: str, file: str, budget: Budget, default_gpu: str, snapshot: str | None = None
) -> dict[str, Any]:
    """What a worker is asked for the test ``key`` in ``file``."""
    return {
        "key": key,
        "file": file,
        "gpu": budget.gpu or default_gpu,
        "limited": budget.gpu is not None,
        "metric": budget.metric,
        "snapshot": snapshot,
    }


def read_answer(budget: Budget, answer: dict[str, Any]) -> Estimate:
    """A worker's answer as an estimate, or that of several ranks; of these the reports that count."""
    properties = tuple((name, value) for name, value in answer.get("properties", ()))
    found = answer.get("reports") or [answer[name] for name in ("report",) if name in answer]
    named = budget.named_ranks
    reports = sorted(map(MemoryReport.from_json, found), key=lambda report: report.rank)
    counted = tuple(report for report in reports if named is None or report.rank in named)
    machine = fullest_machine(counted, budget.gpus, gpus_a_machine(budget.gpus, os.environ))
    return replace(
        _judged(budget, answer, counted, machine),
        reports=counted,
        properties=properties,
        has_snapshot=answer.get("has_snapshot", False),
        snapshot_error=answer.get("snapshot_error", ""),
        snapshot_rank=answer.get("snapshot_rank"),
        host_bytes=machine.host_bytes if machine is not None and machine.host_bytes else None,
    )


def _judged(
    budget: Budget, answer: dict[str, Any], reports: tuple[MemoryReport, ...], machine: Machine | None
) -> Estimate:
    outcome, reason, rank = answer["outcome"], answer.get("reason", ""), answer.get("failed_rank")
    details = answer.get("details", "")
    if outcome == "skipped":
        device = answer.get("device") or "the virtual device"
        verdict = judge(budget, reports, capacity_of(budget), machine)
        if verdict.name == OVER:
            return Estimate(replace(verdict, reason=f"{verdict.reason}, before it skipped itself: {reason}"))
        return Estimate(Verdict(SKIPPED, f"skipped on {device}: {reason}"))
    if outcome == "error":
        first, _, rest = reason.partition("\n")
        details = "\n".join(part for part in (rest, details) if part)
        return Estimate(Verdict(ERROR, first, rank), (), details, answer.get("raised", False))
    if outcome == "out_of_memory":
        card = f"does not fit on {budget.gpu}" if budget.gpu else "out of memory"
        return Estimate(Verdict(OVER, f"{card}: {reason}, at {answer['where']}", rank), (), details)
    return Estimate(judge(budget, reports, capacity_of(budget), machine))


def capacity_of(budget: Budget) -> int | None:
    """What the named card can hold of the budget's metric, in bytes; None where no card is named.

    ``device`` has the CUDA context in it, the other metrics leave room for it.
    """
    if budget.gpu is None:
        return None
    gpu = find_gpu(budget.gpu)
    return gpu.total_bytes if budget.metric == "device" else gpu.usable_bytes
