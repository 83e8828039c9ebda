"""Estimator: the one contract of the ways to estimate a test, and the results that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..budgets.marked_test import MarkedTest
from ..budgets.verdict import ERROR, Verdict
from ..errors import MembudgetError
from ..memory_report import MemoryReport
from .advice import Advice
from .test_result import TestResult


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a session says of its estimates at its end."""

    cache_trouble: str = ""
    """Why estimates could not be kept; empty if they could."""
    not_cached: dict[str, str] = field(default_factory=dict)
    """Why single estimates cannot be cached, by node id."""
    uncollected: list[str] = field(default_factory=list)
    """Tests with budgets that are collected only where CUDA is available, so that none can fail here."""


def result_of(test: MarkedTest, verdict: Verdict, **more: Any) -> TestResult:
    """The result of ``test`` with the verdict of its budget; ``more``: further fields."""
    budget = test.budget
    return TestResult(
        *(test.nodeid, test.location, verdict.name, verdict.reason, budget),
        limit_bytes=budget.limit_bytes if budget is not None else None,
        rank=verdict.rank,
        selected=test.is_selected,
        **more,
    )


def without_figure(test: MarkedTest, reason: str) -> TestResult:
    """The result of a test that could not be estimated; the first line of ``reason`` is the verdict's."""
    first, _, rest = reason.partition("\n")
    return result_of(test, Verdict(ERROR, first), details=rest)


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

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of ``test``: its reports, and the verdict of its budget.

        Raises ``NotEstimated`` where this way is not for it, and ``MembudgetError`` for a budget that cannot
        be checked as it is written.
        """
        ...

    def advise(self, test: MarkedTest, estimate: MemoryReport, say: Callable[[str], None]) -> Advice | None:
        """Run ``test``, whose ``estimate`` is over its budget, with changes that may reduce its memory.

        ``say`` is called with the title of each change before it is tried. None if none can be tried.
        """
        return None

    def record(self, test: MarkedTest, folder: Path) -> tuple[str | None, str]:
        """Run ``test`` again, and leave its snapshot in ``folder``'s ``snapshots``.

        Its path from ``folder``, or None and why it could not be written; neither for several GPUs.
        """
        return None, ""

    def remarks(self) -> Remarks:
        """At the end of the session."""
        return Remarks()

    def collect(self, files: Sequence[str]) -> None:
        """Collect ``files`` with CUDA available; ``remarks`` has the tests that only that finds."""
        return

    def close(self) -> None:
        """End its processes."""
        return
