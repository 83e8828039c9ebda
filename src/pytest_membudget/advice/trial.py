"""What of a test is over its budget, a run of its body with one change, and the runs that reduced it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from ..budgets.budget import Budget
from ..json_object import JsonObject, Word
from ..memory_report import MemoryReport
from ..units import bytes_of_gib

#: Trials that save less than this share of the excess over the budget are not listed.
_LEAST_SHARE: Final = 0.01


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


@dataclass(frozen=True, slots=True)
class Trial(JsonObject):
    """One run of the body with one change."""

    change: Word
    """Its name in ``changes.CHANGES``."""
    write: str
    """What to write, as code where possible."""
    bytes: int
    """The figure with the change."""


@dataclass(frozen=True, slots=True)
class Advice(JsonObject):
    """The changes that were tried for one test, and the figures."""

    required: ClassVar[tuple[str, ...]] = ("trials", "untried")

    figure_bytes: int
    """The figure without a change: the peak of the budget's metric, or the component that is over."""
    limit_bytes: int
    """The limit of that figure."""
    trials: tuple[Trial, ...] = ()
    """The largest saving first."""
    untried: tuple[Word, ...] = ()
    """Names of changes that were not tried because the time was up."""


def is_worth_it(saved_bytes: int, missing_bytes: int) -> bool:
    """Whether a saving is large enough to be listed for a test that is ``missing_bytes`` over its budget."""
    return saved_bytes > 0 and saved_bytes >= _LEAST_SHARE * missing_bytes


def savings_first(trials: Iterable[Trial], figure_bytes: int, missing_bytes: int) -> tuple[Trial, ...]:
    """The ``trials`` that save enough, the largest saving first; ``figure_bytes`` is without a change."""
    worth = [trial for trial in trials if is_worth_it(figure_bytes - trial.bytes, missing_bytes)]
    return tuple(sorted(worth, key=lambda trial: trial.bytes))
