"""Chooses the estimator for each test of a session. The gate imports no other module of the estimators."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.settings import DEFAULT_GPU, Settings
from ..cache.estimates import EstimateCache
from ..cache.session_facts import cache_of
from ..devices.choice import choose_device
from ..hardware.host_capacity import processors
from ..memory_report import MemoryReport
from ..names import OFF
from ..results.estimator import Estimator
from ..results.test_result import TestResult
from ..testing import MODULE, GivenDevice, GivenEstimates, given_to
from ..worker.client.measuring import MeasuringEstimator
from ..worker.client.order import CUDA, Collected, Order
from ..worker.client.tracing import TracingEstimator

_GIVEN = f"CHECKS NOTHING: all estimates are given by {MODULE}"


class Estimators:
    """The estimators of one session."""

    def __init__(self, bodies: Estimator, measurer: Estimator, settings: Settings) -> None:
        """``bodies``: estimates tests with a body."""
        self.bodies = bodies
        self.measurer = measurer
        self._defaults = settings.marker_defaults()

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of ``test``, with the report of the scenario that its budget names."""
        if not test.has_body:
            return self._formulas.estimate(test)
        analytic: tuple[MemoryReport, ...] = ()
        if test.budget is not None and test.budget.scenario is not None:
            from ..scenarios.estimating import analytic_reports

            analytic = analytic_reports(test.budget, Path(test.path), self._defaults)
        result = self.bodies.estimate(test)
        return replace(result, estimates=(*result.estimates, *analytic)) if result.estimates else result

    @cached_property
    def _formulas(self) -> Estimator:
        from ..scenarios.estimating import AnalyticEstimator

        return AnalyticEstimator(self._defaults)


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
        estimators = Estimators(given, given.measurer, settings)
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
        return Estimators(bodies, measurer, settings)

    name = settings.gpu or f"{DEFAULT_GPU} (no gpu named: its size limits nothing)"
    measuring = "measures nothing" if settings.measure == OFF else "measures where CUDA is"
    header = f"estimates on a {device.name} {name} ({device.why}); {measuring}"
    if given is not None:
        return EstimatorChoice(f"CHECKS NOTHING: measures on {card.device}; {header}", begin, is_given=True)
    return EstimatorChoice(header, begin)
