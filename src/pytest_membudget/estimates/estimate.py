"""Estimate: the reports of one test's ranks and the verdict of its budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..budgets.budget import Budget
from ..budgets.verdict import ERROR, Verdict
from ..memory_report import MemoryReport


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory that one test takes, judged by its budget; or why there is no figure."""

    verdict: Verdict
    budget: Budget | None = None
    """None if it cannot be read."""
    reports: tuple[MemoryReport, ...] = ()
    """One a rank."""
    details: str = ""
    """Further lines on why there is no figure."""
    raised: bool = False
    """The test's own code raised."""
    properties: tuple[tuple[str, Any], ...] = ()
    """Properties that the test recorded with ``record_property``."""
    snapshot: str | None = None
    """The path of its memory snapshot, relative to the report's folder."""
    snapshot_error: str = ""
    """Why its snapshot could not be written."""
    host_bytes: int | None = None
    """Host memory of the machine whose ranks hold most of it; None if it is not known."""
    cached: bool = False
    """Whether all of it comes from the cache."""
    measured_on: str | None = None
    """The name of the card, if it was measured."""


def without_figure(reason: str, budget: Budget | None = None) -> Estimate:
    """The estimate of a test that could not be estimated; the first line of ``reason`` is the verdict's."""
    first, _, rest = reason.partition("\n")
    return Estimate(Verdict(ERROR, first), budget, details=rest)
