"""The results of a session: one for each marked test, estimated when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ..budgets.budget import Budget
from ..budgets.marked_test import MarkedTest
from ..budgets.node_ids import file_name_of, name_of_rank
from ..budgets.settings import DEFAULT_GPU, OFF, REQUIRE, Settings
from ..budgets.verdict import ERROR, OVER, SKIPPED, WITHIN, Verdict
from ..cache.estimates import EstimateCache
from ..cache.session_cache import cache_of
from ..devices.choice import choose_device
from ..errors import MembudgetError
from ..hardware.host_capacity import processors
from ..memory_report import MemoryReport
from ..results.test_result import TestResult, with_measurement
from ..scenarios.items import ScenarioItem
from ..worker.client.estimator import Estimate, capacity_of
from ..worker.client.estimators import Estimators
from ..worker.client.measure import Measurer, NotMeasured
from ..worker.client.order import CUDA, CUDA_GROUP, Order
from .marking import is_marked, marked_test, unreadable

#: Called before each estimate with its number, how many there are, and the test.
Progress = Callable[[int, int, str], None]

#: Where snapshots lie in the report's folder.
_SNAPSHOTS = "snapshots"

#: What makes the device that tests are measured on, and the backend between several of them.
MEASURED_ON = CUDA
MEASURED_BY = CUDA_GROUP

#: Why a scenario is not measured: it has no body that could run.
_ANALYTIC = "analytic scenario"

#: Why a mark that limits growth alone checks nothing; never a pass.
_NOT_COMPARED = (
    "not compared: max_growth alone checks nothing without a base; run pytest with --membudget-compare=REF, "
    "or write gib=... too"
)

#: At the test itself, not under its name: two tests may have the same.
_RESULT = pytest.StashKey[TestResult]()


class BudgetSession:
    """The budgets of one session, and what was found out about them."""

    def __init__(
        self,
        settings: Settings,
        args: Sequence[str],
        start_dir: str,
        report_folder: Path | None = None,
        *,
        compares: bool = False,
    ) -> None:
        """``report_folder``: where each estimated test leaves a snapshot; None for none.

        ``compares``: there is a base; without one a budget of growth alone is not checked.
        Raises ``UsageMistake`` where the device that is asked for cannot be had.
        """
        self.settings = settings
        #: what estimates are made on
        self.device = choose_device(settings.device)
        self._compares = compares
        self._report_folder = report_folder
        self._args = args
        self._dir = start_dir
        self._files: list[str] = []
        self._estimators: Estimators | None = None
        self._config: pytest.Config | None = None
        self._measurer: Measurer | None = None

    def plan(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The marked ones of ``items``, those that will run; their files are what workers collect."""
        marked = [item for item in items if is_marked(item)]
        self._config = marked[0].config if marked else None
        bodies = [item for item in marked if not isinstance(item, ScenarioItem)]
        self._files = list(dict.fromkeys(str(item.path) for item in bodies))
        return marked

    def estimate_all(self, items: Sequence[pytest.Item], progress: Progress) -> Iterator[TestResult]:
        """The results of ``items`` in their order; as many are estimated at once as there is room for."""
        self._expect(items)
        for number, item in enumerate(items, start=1):
            progress(number, len(items), item.nodeid)
            yield self.result_of(item)

    def result_of(self, item: pytest.Item) -> TestResult:
        """The result of ``item``; it is estimated now if it has not been."""
        result = item.stash.get(_RESULT, None)
        if result is None:
            result = item.stash[_RESULT] = self._estimated(item)
        return result

    def measured(self, item: pytest.Item) -> TestResult:
        """The result of ``item`` with its measurement, or why it has none."""
        result = item.stash[_RESULT] = self._measured(item, self.result_of(item))
        return result

    def _measured(self, item: pytest.Item, result: TestResult) -> TestResult:
        if result.measurements or result.verdict not in (WITHIN, OVER):
            return result
        if isinstance(item, ScenarioItem):
            return replace(result, not_measured=_ANALYTIC)
        if result.verdict == OVER:
            return replace(result, not_measured="over budget already")
        if self.settings.measure == OFF:
            return replace(result, not_measured="switched off")
        test = marked_test(item, self.settings)
        assert test.budget is not None  # it was estimated within
        found = self._measures().measure(test.key, test.path, test.budget)
        if not isinstance(found, NotMeasured):
            return with_measurement(
                result, found.verdict, found.details, found.reports, self._measures().card_name
            )
        missing = replace(result, not_measured=found.reason)
        if self.settings.measure != REQUIRE:
            return missing
        return replace(missing, verdict=ERROR, reason=f"not measured: {found.reason}; it was required")

    def without_estimate(self, item: pytest.Item, verdict: str, reason: str) -> TestResult:
        """The result of a test that is not going to be estimated: ``error`` or ``skipped``, and why."""
        test = marked_test(item, self.settings)
        return _result(test, test.budget, Estimate(Verdict(verdict, reason)))

    def _expect(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if isinstance(item, ScenarioItem) or _RESULT in item.stash:
                continue
            test = marked_test(item, self.settings)
            with suppress(Exception):  # its result has the reason
                if test.budget is not None and not self._is_unchecked(test.budget):
                    estimator = self._estimates().for_budget(test.budget)
                    estimator.expect(test.key, test.path, test.budget, self._snapshot_path(test))

    def _is_unchecked(self, budget: Budget) -> bool:
        """Whether ``budget`` limits growth alone, and there is no base to compare with."""
        return budget.is_of_growth_alone and not self._compares

    def close(self) -> None:
        """End the workers."""
        for workers in (self._estimators, self._measurer):
            if workers is not None:
                workers.close()
        self._measurer = None

    @property
    def cache_trouble(self) -> str:
        """Why estimates could not be kept; empty if they could."""
        return self._estimators.cache_trouble if self._estimators is not None else ""

    def _estimated(self, item: pytest.Item) -> TestResult:
        test = marked_test(item, self.settings)
        if isinstance(item, ScenarioItem):
            return _result(test, *item.estimated(self.settings.marker_defaults()))
        if test.budget is None:
            return _result(test, None, Estimate(Verdict(ERROR, test.mistake)))
        try:
            return self._estimated_in_worker(test, test.budget)
        except MembudgetError as error:
            reason = f"{test.file}:{test.line}: {error}"
        except Exception as error:  # a value that cannot be worked with; it must not end the session
            reason = unreadable(test.file, test.line, error)
        return _result(test, None, Estimate(Verdict(ERROR, reason)))

    def _estimated_in_worker(self, test: MarkedTest, budget: Budget) -> TestResult:
        if self._is_unchecked(budget):
            return _result(test, budget, Estimate(Verdict(SKIPPED, _NOT_COMPARED)))
        analytic = self._analytic(test, budget)
        estimator = self._estimates().for_budget(budget)
        estimate = estimator.estimate(test.key, test.path, budget, self._snapshot_path(test))
        if estimate.reports:
            estimate = replace(estimate, reports=(*estimate.reports, *analytic))
        return _result(test, budget, estimate)

    def _analytic(self, test: MarkedTest, budget: Budget) -> tuple[MemoryReport, ...]:
        """The figure of the scenario that ``budget`` names; none where it names none."""
        if budget.scenario is None:
            return ()
        from ..scenarios.reference import analytic_reports

        return analytic_reports(budget, Path(test.path), self.settings.marker_defaults())

    def _snapshot_path(self, test: MarkedTest) -> str | None:
        if self._report_folder is None:
            return None
        return os.path.abspath(self._report_folder / _snapshot_name(test))

    def _estimates(self) -> Estimators:
        if self._estimators is None:
            self._estimators = Estimators(self._order, self.device, self._cache_for)
        return self._estimators

    def _cache_for(self, order: Order) -> EstimateCache | None:
        if self._config is None or self.settings.cache == OFF:
            return None
        return cache_of(self._config, self.settings, order)

    def _measures(self) -> Measurer:
        if self._measurer is None:
            order = replace(self._order(), at_once=1)
            self._measurer = Measurer(order, os.environ, MEASURED_ON, MEASURED_BY)
        return self._measurer

    def _order(self) -> Order:
        return Order(
            args=self._args,
            dir=self._dir,
            files=self._files,
            gpu=self.settings.gpu or DEFAULT_GPU,
            timeout=self.settings.timeout,
            records=self._report_folder is not None,
            at_once=self.settings.processes or processors(os.environ),
        )


def _result(test: MarkedTest, budget: Budget | None, estimate: Estimate) -> TestResult:
    """What is known of ``test`` once it is estimated, or cannot be."""
    return TestResult(
        nodeid=test.nodeid,
        file=test.file,
        line=test.line,
        budget=budget,
        limit_bytes=_limit_bytes(budget),
        verdict=estimate.verdict.name,
        reason=estimate.verdict.reason,
        details=estimate.details,
        raised=estimate.raised,
        estimates=estimate.reports,
        properties=estimate.properties,
        snapshot=_snapshot_name(test, estimate.snapshot_rank) if estimate.has_snapshot else None,
        snapshot_error=estimate.snapshot_error,
        rank=estimate.verdict.rank,
        host_bytes=estimate.host_bytes,
        cached=estimate.cached,
    )


def _snapshot_name(test: MarkedTest, rank: int | None = None) -> str:
    path = f"{_SNAPSHOTS}/{file_name_of(test.nodeid)}.pickle"
    return path if rank is None else name_of_rank(path, rank)


def _limit_bytes(budget: Budget | None) -> int | None:
    if budget is None:
        return None
    return budget.limit_bytes if budget.gib is not None else capacity_of(budget)
