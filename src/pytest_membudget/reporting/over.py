"""What of a test's figures is over its budget: by how much, its rows, and what to write to allow it."""

from typing import Any

from ..budgets.verdict import Part, parts_of, suggested_gib
from ..results.test_result import TestResult


def over_of(result: TestResult) -> Part | None:
    """What of ``result`` is over, as ``judge`` looks for it; None if nothing is, or there is no figure."""
    figure, budget, limit_bytes = result.figure, result.budget, result.limit_bytes
    if figure is None:
        return None
    if limit_bytes is not None and figure.peak_bytes > limit_bytes:  # the budget's, or the lock file's
        return Part("gib", "", limit_bytes, figure, figure.peak_bytes)
    reports = result.measurements or result.estimates
    parts = parts_of(budget, reports, result.host_bytes) if budget is not None else ()
    return next((part for part in parts if part.of and part.excess_bytes > 0), None)


def enough(result: TestResult, part: Part) -> Any:
    """A value of the argument of ``part`` that is enough for ``result``."""
    gib = suggested_gib(part.bytes)
    written = int(gib) if gib == int(gib) else gib
    if part.argument != "components" or result.budget is None:
        return written
    return {**result.budget.components, part.of: written}
