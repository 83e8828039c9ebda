"""Chooses the estimator for each test of a session. The gate imports no other module of the estimators."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.settings import DEFAULT_GPU, Settings
from ..cache.estimates import EstimateCache
from ..cache.session_facts import cache_of
from ..cache.store import has_entries
from ..comparison.base.invocation import Invocation
from ..devices.choice import find_stand_in
from ..hardware.host_capacity import processors
from ..names import OFF, REFRESH
from ..results.estimator import Estimator
from ..results.test_result import TestResult
from ..testing import MODULE, GivenDevice, GivenEstimates, given_to
from ..worker.client.measuring import MeasuringEstimator
from ..worker.client.order import Collected, Order, worker_import_path
from ..worker.client.template import Template
from ..worker.client.tracing import TracingEstimator
from ..worker.client.worker import EarlyWorker
from ..worker.protocol import CUDA

_GIVEN = f"CHECKS NOTHING: all estimates are given by {MODULE}"
#: Makes the estimator of tests with a body, and what measures them, from their files and what was collected.
Begin = Callable[[Sequence[str], Collected], tuple[Estimator, Estimator]]


@dataclass
class Estimators:
    """The estimators of one session."""

    header: str
    """The line in the session's header."""
    begin: Begin
    template: Template | None = None
    """Of workers."""
    early: EarlyWorker | None = None
    """The first of them."""
    is_given: bool = False
    """Whether figures come from ``pytest_membudget.testing``, so that nothing is checked."""

    def __post_init__(self) -> None:
        self.plan((), {})

    def plan(self, files: Sequence[str], collected: Collected) -> None:
        """Begin with ``files``, those of the tests with a body that will run."""
        self.bodies, self.measurer = self.begin(files, collected)

    def begin_template(self) -> str:
        """Prepare for workers while the session collects; returns where this and other processes get them."""
        if self.template is None:
            return ""
        self.template.begin()
        return self.template.address

    def begin_worker(self, files: Sequence[str]) -> None:
        """Ask for a worker of ``files``, which the session collects and whose tests all run."""
        if self.early is not None:
            self.early.begin(files)

    def close(self) -> None:
        """End all processes."""
        self.bodies.close()
        self.measurer.close()
        if self.early is not None:
            self.early.close()
        if self.template is not None:
            self.template.close()

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of ``test``."""
        if test.has_body:
            return self.bodies.estimate(test)
        from ..scenarios.estimating import AnalyticEstimator

        return AnalyticEstimator().estimate(test)


def choose_estimators(
    config: pytest.Config, settings: Settings, start: Invocation, snapshots: Path | None
) -> Estimators:
    """How the session of ``config`` estimates. ``start``: how it was started.

    ``snapshots``: the folder in whose ``snapshots`` each test leaves one; None for none. Raises
    ``UsageMistake`` where nothing can be estimated here.
    """
    given = given_to(config, start.args)
    if isinstance(given, GivenEstimates):
        both = (given, given.measurer)
        return Estimators(_GIVEN, lambda files, collected: both, is_given=True)
    stand_in = find_stand_in()
    order = Order(
        args=start.args,
        dir=start.dir,
        files=(),
        gpu=settings.gpu or DEFAULT_GPU,
        timeout=settings.timeout,
        processes=processors(os.environ),
        stand_in=stand_in,
        observes=settings.cache != OFF,
    )
    template = Template(order, start.template)
    is_needed = settings.cache in (OFF, REFRESH) or not has_entries(os.environ)
    early = EarlyWorker(order, template, is_needed=is_needed)
    card = given or GivenDevice(CUDA)

    def cache_for(order: Order) -> EstimateCache | None:
        if settings.cache == OFF:
            return None
        device = [order.device, order.gpu, order.cards, stand_in.torch.version]
        path = worker_import_path(order)
        return cache_of(config, settings, order.args, order.dir, order.files, device, path)

    def begin(files: Sequence[str], collected: Collected) -> tuple[Estimator, Estimator]:
        ordered = replace(order, files=files, collected=collected, template=template.address)
        measurer = MeasuringEstimator(replace(ordered, stand_in=None), os.environ, card.device)
        return TracingEstimator(ordered, cache_for, snapshots, early.start), measurer

    name = settings.gpu or f"{DEFAULT_GPU} where no gpu is named, whose size limits nothing"
    measuring = "measures nothing" if settings.measure == OFF else "measures where CUDA is"
    header = f"estimates on a stand-in {name} ({stand_in.header}); {measuring}"
    if given is not None:
        header = f"CHECKS NOTHING: measures on {card.device}; {header}"
    return Estimators(header, begin, template, early, is_given=given is not None)
