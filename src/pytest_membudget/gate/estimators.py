"""The estimators of a session: which of them a test is given to. The gate knows no other module of theirs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.settings import DEFAULT_GPU, Settings
from ..cache.estimates import EstimateCache
from ..cache.session_facts import cache_of
from ..devices.choice import DeviceChoice
from ..estimates.estimate import Estimate
from ..estimates.estimator import Estimator
from ..hardware.host_capacity import processors
from ..memory_report import MemoryReport
from ..names import OFF
from ..worker.client.measuring import MeasuringEstimator
from ..worker.client.order import CUDA, CUDA_GROUP, Order
from ..worker.client.tracing import TracingEstimator

#: What makes the device that tests are measured on, and the backend between several of them.
MEASURED_ON = CUDA
MEASURED_BY = CUDA_GROUP


class Estimators(NamedTuple):
    """Those of one session."""

    estimator: Estimator
    measurer: Estimator


def estimators_for(
    config: pytest.Config,
    settings: Settings,
    device: DeviceChoice,
    invocation: tuple[Sequence[str], str],
    report_folder: Path | None,
    files: Sequence[str],
) -> Estimators:
    """Those of the session of ``config``, which estimates on ``device``.

    ``invocation``: its command line, and where that was given. ``report_folder``: where each test leaves a
    snapshot; None for none. ``files``: of the tests that have a body.
    """
    args, start_dir = invocation
    order = Order(
        args=args,
        dir=start_dir,
        files=files,
        gpu=settings.gpu or DEFAULT_GPU,
        timeout=settings.timeout,
        at_once=settings.processes or processors(os.environ),
    )

    def cache_for(order: Order) -> EstimateCache | None:
        return cache_of(config, settings, order) if settings.cache != OFF else None

    bodies = TracingEstimator(order, device, cache_for, report_folder)
    measurer = MeasuringEstimator(order, os.environ, MEASURED_ON, MEASURED_BY)
    return Estimators(_ByKind(bodies, settings), measurer)


class _ByKind(Estimator):
    """Formulas for scenarios, another estimator for tests with a body."""

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

    @property
    def trouble(self) -> str:
        return self._bodies.trouble

    @property
    def not_cached(self) -> dict[str, str]:
        return self._bodies.not_cached

    def close(self) -> None:
        self._bodies.close()

    @cached_property
    def _formulas(self) -> Estimator:
        from ..scenarios.estimating import AnalyticEstimator

        return AnalyticEstimator(self._settings.marker_defaults())

    def _analytic(self, test: MarkedTest) -> tuple[MemoryReport, ...]:
        """The figure of the scenario that the budget names; none where it names none."""
        if test.budget is None or test.budget.scenario is None:
            return ()
        from ..scenarios.estimating import analytic_reports

        return analytic_reports(test.budget, Path(test.path), self._settings.marker_defaults())
