"""A budget and what was found out: within or not, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .budget import Budget
from .report import MemoryReport
from .units import GIB, bytes_of_gib, gib_text

WITHIN = "within"
OVER = "over"
ERROR = "error"
SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``within``, ``over``, ``error`` (no figure could be had) or ``skipped``, with the reason in a line."""

    name: str
    reason: str


def judge(budget: Budget, reports: Sequence[MemoryReport], capacity_bytes: int | None) -> Verdict:
    """Hold every report to ``budget``; the worst decides.

    ``capacity_bytes`` is what the named card can hold of the budget's metric: all of its memory for
    ``device``, without the context for the others; the budget where no ``gib`` is given. No report, or one
    in which nothing was allocated, is an error: a budget that checked nothing never passes.
    """
    if not reports:
        return Verdict(ERROR, "no estimate: nothing was checked")
    if all(report.peak.allocated_bytes == 0 for report in reports):
        return Verdict(
            ERROR,
            "the test allocated nothing on cuda, so its budget checked nothing; "
            "put the model and its inputs on device 'cuda'",
        )
    limit_bytes = budget.limit_bytes if budget.gib is not None else capacity_bytes
    worst = max(reports, key=lambda report: report.peak_bytes)
    if limit_bytes is not None and worst.peak_bytes > limit_bytes:
        excess = gib_text(worst.peak_bytes - limit_bytes)
        return Verdict(OVER, f"{excess} over its budget of {_limit_text(budget, limit_bytes)}")
    for report in reports:
        for component, gib in budget.components.items():
            held = report.components[component]
            if held > bytes_of_gib(gib):
                excess = gib_text(held - bytes_of_gib(gib))
                return Verdict(OVER, f"{component} {excess} over their budget of {gib:g} GiB")
    if limit_bytes is None:
        return Verdict(WITHIN, "all components within their budgets")
    share = worst.peak_bytes / limit_bytes
    return Verdict(WITHIN, f"{share:.0%} of its budget of {_limit_text(budget, limit_bytes)}")


def _limit_text(budget: Budget, limit_bytes: int) -> str:
    if budget.gib is not None:
        return f"{budget.gib:g} GiB"
    return f"{limit_bytes / GIB:.2f} GiB, what {budget.gpu} can hold"
