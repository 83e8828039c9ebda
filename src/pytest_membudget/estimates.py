"""Estimate: the reports of one test's ranks and the verdict of its budget; Estimator: a way to make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .advice.trial import Advice
from .budgets.budget import Budget
from .budgets.marked_test import MarkedTest
from .budgets.verdict import ERROR, Verdict
from .errors import MembudgetError
from .memory_report import MemoryReport


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


class NotEstimated(MembudgetError):  # noqa: N818 - nothing is wrong
    """This way does not estimate the test; the text says why, in a line."""


class Estimator(Protocol):
    """One way to estimate marked tests; subclasses must implement ``estimate`` only.

    The ways are ``worker.client.tracing`` (runs the test on a device that is not there),
    ``scenarios.estimating`` (formulas), ``worker.client.measuring`` (runs it on a CUDA card) and
    ``pytest_membudget.testing`` (estimates that a test of the gate gives).
    """

    def expect(self, test: MarkedTest) -> None:
        """Begin with ``test`` if there is room. ``estimate`` is called later, in the same order."""
        return

    def estimate(self, test: MarkedTest) -> Estimate:
        """The estimate of ``test``, with the verdict of its budget.

        Raises ``NotEstimated`` where this way is not for it, and ``MembudgetError`` for a budget that cannot
        be checked as it is written.
        """
        ...

    def advise(self, test: MarkedTest, estimate: MemoryReport, say: Callable[[str], None]) -> Advice | None:
        """Run ``test``, whose ``estimate`` is over its budget, with changes that may reduce its memory.

        ``say`` is called with the name of each change before it is tried. None if none can be tried.
        """
        return None

    @property
    def trouble(self) -> str:
        """Why estimates could not be cached; empty if they could."""
        return ""

    @property
    def not_cached(self) -> dict[str, str]:
        """Why single estimates cannot be cached, by node id."""
        return {}

    def collect(self, files: Sequence[str]) -> None:
        """Collect ``files`` with CUDA available; ``uncollected`` returns tests that only that finds."""
        return

    @property
    def uncollected(self) -> list[str]:
        """Tests with budgets that are collected only where CUDA is available, so that none can fail here."""
        return []

    def close(self) -> None:
        """End its processes."""
        return
