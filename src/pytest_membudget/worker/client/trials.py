"""Runs a test over its budget again, each time with one change; keeps the changes that reduce its memory."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ...budgets.marked_test import MarkedTest
from ...budgets.verdict import Part
from ...errors import WorkerFailure
from ...memory_report import MemoryReport
from ...results.advice import Advice, Change, excess_of, savings_first, worth_trying
from ...results.answer import TRACED, Request
from .workers import Workers

#: Called with the title of each change before it is tried.
Say = Callable[[str], None]
#: The workers that run a trial of a change, or the test without one.
WorkersFor = Callable[[Change | None], Workers]


class Trials:
    """The trials of a session. No more are started after ``seconds`` of wall-clock time."""

    def __init__(self, seconds: float) -> None:
        self._left_seconds = seconds

    def advice(
        self,
        workers_for: WorkersFor,
        test: MarkedTest,
        request: Request,
        report: MemoryReport | None,
        say: Say,
    ) -> Advice | None:
        """The changes that reduce the memory of ``test``; None if none can be tried.

        ``request`` and ``report`` are those of its estimate. ``report`` is None if that ran out of the card's
        memory: the test and its trials are then run on a card without a limit.
        """
        assert test.budget is not None
        began = time.monotonic()
        request = replace(request, snapshot=None)
        ran_out = report is None
        if report is None:
            request = replace(request, limited=False)
            report, _ = _run(workers_for(None), request)
        excess = excess_of(test.budget, report, ran_out=ran_out) if report is not None else None
        if report is None or excess is None:
            return None
        changes = worth_trying(excess, test.fixtures)
        asked = [(one, workers_for(one), replace(request, change=one.name)) for one in changes]
        trials, untried = self._tried(asked, excess, say)
        self._left_seconds -= time.monotonic() - began
        listed = savings_first(trials, excess.bytes, excess.excess_bytes)
        return Advice(excess.bytes, excess.limit_bytes, {**listed, **dict.fromkeys(untried)})

    def _tried(
        self, asked: Sequence[tuple[Change, Workers, Request]], excess: Part, say: Say
    ) -> tuple[dict[str, int], list[str]]:
        """The figures of trials by what to write, and the titles of changes that were not tried."""
        ends = time.monotonic() + self._left_seconds
        for _, workers, request in reversed(asked):
            workers.expect([request], next_=True)
        trials: dict[str, int] = {}
        untried: list[str] = []
        for change, workers, request in asked:
            if time.monotonic() > ends:
                untried.append(change.title)
                workers.forget(request)
                continue
            say(change.title)
            report, changed = _run(workers, request)
            if report is not None and changed:
                trials[change.write.format(changed)] = excess.bytes_in(report)
        return trials, untried


def _run(workers: Workers, request: Request) -> tuple[MemoryReport | None, str]:
    """The figure of a completed run, and what was changed in it; empty if the change was not applicable."""
    with suppress(WorkerFailure):  # only this trial is lost: the test's own estimate is known
        answer = workers.ask(request)
        if answer.outcome == TRACED:
            return answer.report, answer.changed
    return None, ""
