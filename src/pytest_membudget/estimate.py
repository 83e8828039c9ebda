"""Estimates single tests through workers: one worker for all, another where the first is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .budget import Budget
from .errors import WorkerFailure
from .gpus import find_gpu
from .launch import Order, Worker
from .properties import Property
from .report import MemoryReport
from .verdict import ERROR, OVER, SKIPPED, Verdict, judge


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


class Estimator:
    """Asks workers for estimates; a worker that is lost costs its own test the estimate, no other.

    Device memory that test modules allocate when they are imported is there for their own tests only, as
    in a process that runs them alone: where there is any, each file gets a worker of its own. So it does
    where collecting them all has ended the worker: then only one of them is to blame.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._worker: Worker | None = None
        self._file: str | None = None
        self._by_file = False
        #: why no worker can start, by file, or for all of them under None
        self._refusals: dict[str | None, str] = {}

    def estimate(self, key: str, file: str, budget: Budget, snapshot: str | None = None) -> Estimate:
        """The estimate of the test ``key`` (``key_of``) in ``file``, held to its ``budget``.

        ``snapshot``: where to write its snapshot, if its order records.
        """
        refusal = self._refusals.get(None) or self._refusals.get(file)
        if refusal is not None:
            return _failed(refusal)
        gpu = budget.gpu or self._order.gpu
        request = {
            "key": key,
            "file": file,
            "gpu": gpu,
            "limited": budget.gpu is not None,
            "metric": budget.metric,
            "snapshot": snapshot,
        }
        try:
            worker = self._worker_for(file)
            answer = worker.ask(request)
            if worker.is_spent:
                self.close()
        except WorkerFailure as error:
            self.close()
            return _failed(str(error))
        except BaseException:
            self.close()  # the answer is still to come: it must not be taken for the next test's
            raise
        return read_answer(budget, answer)

    def card_for(self, file: str) -> Mapping[str, Any] | None:
        """What the worker that runs ``file``'s tests says of its device; None if there is no such worker."""
        try:
            return self._worker_for(file).card
        except WorkerFailure:  # which its tests will tell
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


def _failed(reason: str) -> Estimate:
    first, _, rest = reason.partition("\n")
    return Estimate(Verdict(ERROR, first), details=rest)


def read_answer(budget: Budget, answer: dict[str, Any]) -> Estimate:
    """A worker's answer as an estimate."""
    properties = tuple((name, value) for name, value in answer.get("properties", ()))
    return replace(
        _judged(budget, answer),
        properties=properties,
        has_snapshot=answer.get("has_snapshot", False),
        snapshot_error=answer.get("snapshot_error", ""),
    )


def _judged(budget: Budget, answer: dict[str, Any]) -> Estimate:
    reports = (MemoryReport.from_json(answer["report"]),) if "report" in answer else ()
    outcome, reason = answer["outcome"], answer.get("reason", "")
    if outcome == "skipped":
        return Estimate(
            Verdict(SKIPPED, f"skipped on {answer.get('device', 'the virtual device')}: {reason}"), reports
        )
    if outcome == "error":
        first, _, rest = reason.partition("\n")
        details = "\n".join(part for part in (rest, answer.get("details", "")) if part)
        return Estimate(Verdict(ERROR, first), reports, details, answer.get("raised", False))
    if outcome == "out_of_memory":
        card = f"does not fit on {budget.gpu}" if budget.gpu else "out of memory"
        return Estimate(Verdict(OVER, f"{card}: {reason}, at {answer['where']}"), reports)
    return Estimate(judge(budget, reports, capacity_of(budget)), reports)


def capacity_of(budget: Budget) -> int | None:
    """What the named card can hold of the budget's metric, in bytes; None where no card is named.

    ``device`` has the CUDA context in it, the other metrics leave room for it.
    """
    if budget.gpu is None:
        return None
    gpu = find_gpu(budget.gpu)
    return gpu.total_bytes if budget.metric == "device" else gpu.usable_bytes
