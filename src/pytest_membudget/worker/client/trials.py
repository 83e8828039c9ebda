"""Runs a test over its budget again, each time with one change; keeps the changes that reduce its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from ...advice.changes import Change, worth_trying
from ...advice.excess import Excess, excess_of
from ...advice.trial import Advice, Trial, savings_first
from ...budgets.marked_test import MarkedTest
from ...errors import WorkerFailure
from ...memory_report import MemoryReport
from .answers import Answer, Request
from .workers import Workers

#: Called with the name of each change before it is tried.
Say = Callable[[str], None]


class Trials:
    """The trials of a session. No more are started after ``seconds`` of wall-clock time."""

    def __init__(self, seconds: float) -> None:
        self._left_seconds = seconds

    def advice(
        self, workers: Workers, test: MarkedTest, request: Request, report: MemoryReport | None, say: Say
    ) -> Advice | None:
        """The changes that reduce the memory of ``test``; None if none can be tried.

        ``request`` and ``report`` are those of its estimate. ``report`` is None if that ran out of the card's
        memory: the test and its trials are then run on a card without a limit.
        """
        assert test.budget is not None
        began = time.monotonic()
        unlimited = {**request, "limited": False, "snapshot": None}
        ran_out = report is None
        if report is None:
            report = _report_in(_answer(workers, unlimited))
        excess = excess_of(test.budget, report, ran_out=ran_out) if report is not None else None
        if report is None or excess is None:
            return None
        try:
            changes = list(worth_trying(report, excess, test.fixtures))
            return self._tried(workers, unlimited if ran_out else request, changes, report, excess, say)
        finally:
            self._left_seconds -= time.monotonic() - began

    def _tried(
        self,
        workers: Workers,
        request: Request,
        changes: Sequence[Change],
        report: MemoryReport,
        excess: Excess,
        say: Say,
    ) -> Advice:
        ends = time.monotonic() + self._left_seconds
        requests = [{**request, "snapshot": None, "change": change.name} for change in changes]
        workers.expect(requests, next_=True)
        trials: list[Trial] = []
        untried: list[str] = []
        for change, changed in zip(changes, requests, strict=True):
            if time.monotonic() > ends:
                untried.append(change.name)
                workers.forget(changed)
                continue
            say(change.name)
            trials += _trial(change, _answer(workers, changed), excess)
        figure_bytes = excess.figure_bytes(report)
        listed = savings_first(trials, figure_bytes, excess.missing_bytes(report))
        return Advice(figure_bytes, excess.limit_bytes, listed, tuple(untried))


def _trial(change: Change, answer: Answer | None, excess: Excess) -> Iterator[Trial]:
    """The trial of ``answer``; none if the change was not applicable, or the test failed with it."""
    report = _report_in(answer)
    if answer is not None and report is not None and answer.get("changed"):
        yield Trial(change.name, change.write.format(answer["changed"]), excess.figure_bytes(report))


def _answer(workers: Workers, request: Request) -> Answer | None:
    try:
        return workers.ask(request)
    except WorkerFailure:  # only this trial is lost: the test's own estimate is known
        return None


def _report_in(answer: Answer | None) -> MemoryReport | None:
    """The figure of a run that was completed."""
    if answer is None or answer["outcome"] != "traced":
        return None
    return MemoryReport.from_json(answer["report"])
