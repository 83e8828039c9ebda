"""Estimator: the contract between the gate and the ways to estimate a test.

The ways are ``worker.client.tracing`` (runs the test on a device that is not there), ``scenarios.estimating``
(formulas), ``worker.client.measuring`` (runs it on a CUDA card) and ``pytest_membudget.testing`` (estimates
that a test of the gate gives).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ..advice.trial import Advice
from ..budgets.marked_test import MarkedTest
from ..errors import MembudgetError
from ..memory_report import MemoryReport
from .estimate import Estimate


class NotEstimated(MembudgetError):  # noqa: N818 - nothing is wrong
    """This way does not estimate the test; the text says why, in a line."""


class Estimator(Protocol):
    """One way to estimate marked tests; subclasses must implement ``estimate`` only."""

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
