"""Finds the waiver of a test, and waivers that no test needs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from ..budgets.settings import TABLE, Waiver
from ..results.comparison import EXPIRED, WAIVED, UnusedWaiver
from ..results.test_result import TestResult
from .strictness import unchecked_in


def waiver_for(nodeid: str, waivers: Iterable[Waiver]) -> Waiver | None:
    """The waiver of the test ``nodeid``: an exact name before a pattern, then the last to expire."""
    covering = [waiver for waiver in waivers if waiver.covers(nodeid)]
    return max(covering, key=lambda waiver: (waiver.test == nodeid, waiver.expires), default=None)


def unused_waivers(
    waivers: Iterable[Waiver], results: Iterable[TestResult], today: datetime.date, *, is_whole: bool
) -> tuple[UnusedWaiver, ...]:
    """The waivers that no test needed, each with the reason.

    ``is_whole``: all tests were run; otherwise waivers of tests that were not run are not reported.
    """
    results = list(results)
    found = []
    for waiver in waivers:
        covered = [result for result in results if waiver.covers(result.nodeid)]
        needed = [result for result in covered if result.status in (WAIVED, EXPIRED) or unchecked_in(result)]
        if needed or not (covered or is_whole):
            continue
        expired = f"; it expired on {waiver.expires}" if waiver.has_expired(today) else ""
        why = "its test needs none" if covered else "there is no such test with a budget"
        found.append(UnusedWaiver(waiver.test, f"{why}{expired}; take it out of {TABLE} waivers"))
    return tuple(found)
