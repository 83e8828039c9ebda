"""Estimator: the contract between the gate and the ways to estimate a test.

The ways are ``worker.client.tracing`` (runs the test on a device that is not there), ``scenarios.estimating``
(formulas), ``worker.client.measuring`` (runs it on a CUDA card) and ``pytest_membudget.testing`` (estimates
that a test of the gate gives).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..budgets.marked_test import MarkedTest
from ..errors import MembudgetError
from .estimate import Estimate


class NotEstimated(MembudgetError):  # noqa: N818 - nothing is wrong
    """This way does not estimate the test; the text says why, in a line."""


class Estimator(Protocol):
    """One way to find out what marked tests take; ``estimate`` alone has to be written."""

    def expect(self, test: MarkedTest) -> None:
        """Begin with ``test`` if there is room: ``estimate`` will be called for it, in the order of these."""
        return

    def estimate(self, test: MarkedTest) -> Estimate:
        """What ``test`` takes, judged by its budget.

        Raises ``NotEstimated`` where this way is not for it, and ``MembudgetError`` for a budget that cannot
        be checked as it is written.
        """
        ...

    @property
    def trouble(self) -> str:
        """Why estimates could not be kept for later sessions; empty if they could."""
        return ""

    @property
    def not_cached(self) -> dict[str, str]:
        """Why single estimates cannot be cached, by test."""
        return {}

    def collect(self, files: Sequence[str]) -> None:
        """See which tests ``files`` have where CUDA is; ``uncollected`` has those with budgets."""
        return

    @property
    def uncollected(self) -> list[str]:
        """Tests with budgets that exist where CUDA is, and not in this session: it cannot fail them."""
        return []

    def close(self) -> None:
        """End its processes."""
        return
