"""Trials: runs of a test that is over its budget, each with one change that may reduce its memory."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...budgets.verdict import Part
from ...errors import WorkerFailure
from ...memory_report import MemoryReport
from ...results.advice import Change
from ...results.answer import TRACED, Request
from .workers import Workers

#: Called with the title of each change before it is tried.
Say = Callable[[str], None]


def tried(
    asked: Sequence[tuple[Change, Workers, Request]], excess: Part, say: Say, seconds: float
) -> tuple[dict[str, int], list[str]]:
    """The figures of trials by what to write, and the titles of changes that were not tried.

    No more are started after so many ``seconds`` of wall-clock time.
    """
    ends = time.monotonic() + seconds
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
        report, changed = figure_of(workers, request)
        if report is not None and changed:
            trials[change.write.format(changed)] = excess.bytes_in(report)
    return trials, untried


def figure_of(workers: Workers, request: Request) -> tuple[MemoryReport | None, str]:
    """The figure of a completed run, and what was changed in it; empty if the change was not applicable."""
    with suppress(WorkerFailure):  # only this trial is lost: the test's own estimate is known
        answer = workers.ask(request)
        if answer.outcome == TRACED:
            return answer.report, answer.changed
    return None, ""
