"""The part of a figure that is over its budget: the total of the metric, or one component."""

from __future__ import annotations

from dataclasses import dataclass

from ..budgets.budget import Budget
from ..memory_report import MemoryReport
from ..units import bytes_of_gib


@dataclass(frozen=True, slots=True)
class Excess:
    """A total or a component that is over its limit."""

    component: str | None
    """None for the total."""
    limit_bytes: int

    def figure_bytes(self, report: MemoryReport) -> int:
        """Its size in ``report``."""
        return report.peak_bytes if self.component is None else report.components.get(self.component, 0)

    def missing_bytes(self, report: MemoryReport) -> int:
        """How much it is over the limit in ``report``; 0 if it is within."""
        return max(0, self.figure_bytes(report) - self.limit_bytes)


def excess_of(budget: Budget, report: MemoryReport, *, ran_out: bool) -> Excess | None:
    """The part of ``report`` that is over ``budget``; None if only host memory is.

    ``ran_out``: the test ran out of the named card's memory; ``report`` is of a run without that limit.
    """
    capacity_bytes = budget.capacity_bytes
    if ran_out and capacity_bytes is not None:
        return Excess(None, capacity_bytes)
    limit_bytes = budget.limit_bytes
    if limit_bytes is not None and report.most_bytes > limit_bytes:
        return Excess(None, limit_bytes)
    for component, gib in budget.components.items():
        if report.components.get(component, 0) > bytes_of_gib(gib):
            return Excess(component, bytes_of_gib(gib))
    return None
