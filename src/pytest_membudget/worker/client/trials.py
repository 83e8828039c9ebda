"""Runs a test over its budget again, each time with one change, and keeps those that lower its memory."""

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
    """The trials of a session, which end when they have taken ``seconds`` of the clock together."""

    def __init__(self, seconds: float) -> None:
        self._left_seconds = seconds

    def advice(
        self, workers: Workers, test: MarkedTest, request: Request, report: MemoryReport | None, say: Say
    ) -> Advice | None:
        """What lowers the memory of ``test``; None where nothing can be tried.

        ``request``: of its estimate. ``report``: the figure of that; None where it ran out of the card's
        memory. The test is then run on a card without a limit, and so are its trials.
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
    """The trial that ``answer`` is of; none where the change has found nothing to change, or has failed."""
    report = _report_in(answer)
    if answer is not None and report is not None and answer.get("changed"):
        yield Trial(change.name, change.write.format(answer["changed"]), excess.figure_bytes(report))


def _answer(workers: Workers, request: Request) -> Answer | None:
    try:
        return workers.ask(request)
    except WorkerFailure:  # it is no advice then, and the test's own estimate is there already
        return None


def _report_in(answer: Answer | None) -> MemoryReport | None:
    """The figure of a run that has come to its end."""
    if answer is None or answer["outcome"] != "traced":
        return None
    return MemoryReport.from_json(answer["report"])
