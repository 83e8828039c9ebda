"""Chooses the estimator for each test of a session. The gate imports no other module of the estimators."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from ..advice.trial import Advice
from ..budgets.marked_test import MarkedTest
from ..budgets.settings import DEFAULT_GPU, Settings
from ..cache.estimates import EstimateCache
from ..cache.session_facts import cache_of
from ..devices.choice import choose_device
from ..estimates.estimate import Estimate
from ..estimates.estimator import Estimator
from ..hardware.host_capacity import processors
from ..memory_report import MemoryReport
from ..names import OFF
from ..testing import MODULE, GivenDevice, GivenEstimates, given_to
from ..worker.client.measuring import MeasuringEstimator
from ..worker.client.order import CUDA, Collected, Order
from ..worker.client.tracing import TracingEstimator

_GIVEN = f"CHECKS NOTHING: all estimates are given by {MODULE}"


class Estimators(NamedTuple):
    """The estimators of one session."""

    estimator: Estimator
    measurer: Estimator


#: Makes the estimators of tests with a body, from their files and what the session has collected.
Begin = Callable[[Sequence[str], Collected], Estimators]


@dataclass(frozen=True, slots=True)
class EstimatorChoice:
    """How a session estimates its tests; decided before they are collected."""

    header: str
    """The line in the session's header."""
    begin: Begin
    """The estimators of the session."""
    is_given: bool = False
    """Estimates come from ``pytest_membudget.testing``, so nothing is checked."""


def choose_estimators(
    config: pytest.Config, settings: Settings, args: Sequence[str], start_dir: str, report_folder: Path | None
) -> EstimatorChoice:
    """How the session of ``config`` estimates. ``args``: its command line, given in ``start_dir``.

    ``report_folder``: where each test leaves a snapshot; None for none. Raises ``UsageMistake`` if the
    requested device is not available.
    """
    given = given_to(config, args)
    if isinstance(given, GivenEstimates):
        estimators = Estimators(_ByKind(given, settings), given.measurer)
        return EstimatorChoice(_GIVEN, lambda files, collected: estimators, is_given=True)
    order = Order(
        args=args,
        dir=start_dir,
        files=(),
        gpu=settings.gpu or DEFAULT_GPU,
        timeout=settings.timeout,
        processes=settings.processes or processors(os.environ),
    )
    device = choose_device(settings.device)
    card = given or GivenDevice(CUDA)

    def cache_for(order: Order) -> EstimateCache | None:
        return cache_of(config, settings, order) if settings.cache != OFF else None

    def begin(files: Sequence[str], collected: Collected) -> Estimators:
        ordered = replace(order, files=files, collected=collected)
        bodies = TracingEstimator(ordered, device, cache_for, report_folder)
        measurer = MeasuringEstimator(ordered, os.environ, card.device, card.backend)
        return Estimators(_ByKind(bodies, settings), measurer)

    name = settings.gpu or f"{DEFAULT_GPU} (no gpu named: its size limits nothing)"
    measuring = "measures nothing" if settings.measure == OFF else "measures where CUDA is"
    header = f"estimates on a {device.name} {name} ({device.why}); {measuring}"
    if given is not None:
        return EstimatorChoice(f"CHECKS NOTHING: measures on {card.device}; {header}", begin, is_given=True)
    return EstimatorChoice(header, begin)


class _ByKind(Estimator):
    """Estimates scenarios by formulas, and tests with a body by another estimator."""

    def __init__(self, bodies: Estimator, settings: Settings) -> None:
        self._bodies = bodies
        self._settings = settings

    def expect(self, test: MarkedTest) -> None:
        if test.has_body:
            self._bodies.expect(test)

    def estimate(self, test: MarkedTest) -> Estimate:
        if not test.has_body:
            return self._formulas.estimate(test)
        analytic = self._analytic(test)
        estimate = self._bodies.estimate(test)
        return replace(estimate, reports=(*estimate.reports, *analytic)) if estimate.reports else estimate

    def advise(self, test: MarkedTest, estimate: MemoryReport, say: Callable[[str], None]) -> Advice | None:
        return self._bodies.advise(test, estimate, say) if test.has_body else None

    @property
    def trouble(self) -> str:
        return self._bodies.trouble

    @property
    def not_cached(self) -> dict[str, str]:
        return self._bodies.not_cached

    def collect(self, files: Sequence[str]) -> None:
        self._bodies.collect(files)

    @property
    def uncollected(self) -> list[str]:
        return self._bodies.uncollected

    def close(self) -> None:
        self._bodies.close()

    @cached_property
    def _formulas(self) -> Estimator:
        from ..scenarios.estimating import AnalyticEstimator

        return AnalyticEstimator(self._settings.marker_defaults())

    def _analytic(self, test: MarkedTest) -> tuple[MemoryReport, ...]:
        """The report of the scenario that the budget names; empty if it names none."""
        if test.budget is None or test.budget.scenario is None:
            return ()
        from ..scenarios.estimating import analytic_reports

        return analytic_reports(test.budget, Path(test.path), self._settings.marker_defaults())
