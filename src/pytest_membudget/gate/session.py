"""What a session gathers: a row for every marked test, estimated when it is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..budgets.budget import Budget
from ..budgets.marker import read_budget
from ..budgets.marker_line import find_marker_line
from ..budgets.node_ids import file_name_of, key_of, name_of_rank, nodeid_of
from ..budgets.settings import DEFAULT_GPU, OFF, REQUIRE, Settings
from ..budgets.verdict import ERROR, OVER, SKIPPED, WITHIN, Verdict
from ..cache.estimates import EstimateCache
from ..cache.session_cache import cache_of
from ..devices.choice import choose_device
from ..errors import MembudgetError
from ..hardware.host_capacity import processors
from ..memory_report import MemoryReport
from ..names import MARKER
from ..reporting.rows import Row, add_measurement, make_row
from ..scenarios.items import ScenarioItem
from ..worker.client.estimator import Estimate, capacity_of
from ..worker.client.estimators import Estimators
from ..worker.client.measure import Measurer, NotMeasured
from ..worker.client.order import CUDA, CUDA_GROUP, Order

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
_ROW = pytest.StashKey[Row]()


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

    def estimate_all(self, items: Sequence[pytest.Item], progress: Progress) -> Iterator[Row]:
        """The rows of ``items`` as they come, in their order; as many at once as there is room for."""
        self._expect(items)
        for number, item in enumerate(items, start=1):
            progress(number, len(items), item.nodeid)
            yield self.row_of(item)

    def row_of(self, item: pytest.Item) -> Row:
        """The row of ``item``; it is estimated now if it has not been."""
        row = item.stash.get(_ROW, None)
        if row is None:
            row = item.stash[_ROW] = self._make_row(item)
        return row

    def measured(self, item: pytest.Item) -> Row:
        """The row of ``item`` with its measurement, or why it has none; only what is estimated within has."""
        row = self.row_of(item)
        if row["verdict"] == OVER:
            row["not_measured"] = "over budget already"
        if isinstance(item, ScenarioItem):
            row["not_measured"] = _ANALYTIC if row["verdict"] in (WITHIN, OVER) else ""
            return row
        if row["verdict"] != WITHIN or row["measurements"]:
            return row
        if self.settings.measure == OFF:
            row["not_measured"] = "switched off"
            return row
        budget = read_budget(_marks(item), self.settings.marker_defaults())
        found = self._measures().measure(key_of(item), str(item.path), budget)
        if isinstance(found, NotMeasured):
            row["not_measured"] = found.reason
            if self.settings.measure == REQUIRE:
                row["verdict"], row["reason"] = ERROR, f"not measured: {found.reason}; it was required"
        else:
            reports = [report.to_json() for report in found.reports]
            verdict = found.verdict
            add_measurement(row, verdict.name, verdict.reason, found.details, reports, verdict.rank)
            row["measured_on"] = self._measures().card_name
        return row

    def row_without_estimate(self, item: pytest.Item, verdict: str, reason: str) -> Row:
        """A row for a test that is not going to be estimated: ``error`` or ``skipped``, and why."""
        file, line = place_of(item)
        if isinstance(item, ScenarioItem):
            return _row(item, file, line, None, Estimate(Verdict(verdict, reason)))
        try:
            budget = read_budget(_marks(item), self.settings.marker_defaults())
        except Exception:  # why it is not estimated is what there is to say
            budget = None
        return _row(item, file, line, budget, Estimate(Verdict(verdict, reason)))

    def _expect(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if isinstance(item, ScenarioItem) or _ROW in item.stash:
                continue
            with suppress(Exception):  # which its row will tell
                budget = read_budget(_marks(item), self.settings.marker_defaults())
                if self._compares or not budget.is_of_growth_alone:
                    snapshot = self._snapshot_path(item)
                    estimator = self._estimates().for_budget(budget)
                    estimator.expect(key_of(item), str(item.path), budget, snapshot)

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

    def _make_row(self, item: pytest.Item) -> Row:
        file, line = place_of(item)
        budget: Budget | None = None
        if isinstance(item, ScenarioItem):
            budget, estimate = item.estimated(self.settings.marker_defaults())
            return _row(item, file, line, budget, estimate)
        try:
            budget = read_budget(_marks(item), self.settings.marker_defaults())
            if budget.is_of_growth_alone and not self._compares:
                return _row(item, file, line, budget, Estimate(Verdict(SKIPPED, _NOT_COMPARED)))
            beside = self._analytic(item, budget)
            snapshot = self._snapshot_path(item)
            estimator = self._estimates().for_budget(budget)
            estimate = estimator.estimate(key_of(item), str(item.path), budget, snapshot)
            if estimate.reports:
                estimate = replace(estimate, reports=(*estimate.reports, *beside))
            return _row(item, file, line, budget, estimate)
        except MembudgetError as error:
            reason = f"{file}:{line}: {error}"
        except Exception as error:  # a value that cannot be worked with; it must not end the session
            reason = (
                f"{file}:{line}: the budget could not be checked ({type(error).__name__}: {error}); "
                "write plain numbers and texts in the mark, as in mem_budget(gib=40)"
            )
        return _row(item, file, line, None, Estimate(Verdict(ERROR, reason)))

    def _analytic(self, item: pytest.Item, budget: Budget) -> tuple[MemoryReport, ...]:
        """The figure of the scenario that ``budget`` names; none where it names none."""
        if budget.scenario is None:
            return ()
        from ..scenarios.reference import analytic_reports

        return analytic_reports(budget, item.path, self.settings.marker_defaults())

    def _snapshot_path(self, item: pytest.Item) -> str | None:
        if self._report_folder is None:
            return None
        return os.path.abspath(self._report_folder / _snapshot_name(item))

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


def is_marked(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget."""
    return item.get_closest_marker(MARKER) is not None


def place_of(item: pytest.Item) -> tuple[str, int]:
    """File and line of the closest mark of ``item``; the test's own where the mark is not in the source."""
    if isinstance(item, ScenarioItem):
        return item.shown_file, item.line
    source = _source_of(item.path)
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    path = [*classes, getattr(item, "originalname", None) or item.name]
    mark = item.get_closest_marker(MARKER)
    found = find_marker_line(source, path, MARKER, mark.kwargs if mark else {}) if source else None
    if found is not None:
        return os.path.relpath(item.path, item.config.rootpath).replace(os.sep, "/"), found
    file, line, _ = item.location
    return file.replace(os.sep, "/"), (line or 0) + 1


def _source_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _row(item: pytest.Item, file: str, line: int, budget: Budget | None, estimate: Estimate) -> Row:
    row = make_row(
        nodeid=nodeid_of(item),
        file=file,
        line=line,
        budget=budget.to_json() if budget is not None else None,
        limit_bytes=_limit_bytes(budget),
        verdict=estimate.verdict.name,
        reason=estimate.verdict.reason,
        details=estimate.details,
        raised=estimate.raised,
        estimates=[report.to_json() for report in estimate.reports],
        properties=estimate.properties,
        snapshot=_snapshot_name(item, estimate.snapshot_rank) if estimate.has_snapshot else None,
        snapshot_error=estimate.snapshot_error,
        rank=estimate.verdict.rank,
        host_bytes=estimate.host_bytes,
        cached=estimate.cached,
    )
    # plain JSON types only: one value that xdist cannot send ends its worker without a word
    plain: Row = json.loads(json.dumps(row))
    return plain


def _snapshot_name(item: pytest.Item, rank: int | None = None) -> str:
    path = f"{_SNAPSHOTS}/{file_name_of(nodeid_of(item))}.pickle"
    return path if rank is None else name_of_rank(path, rank)


def _marks(item: pytest.Item) -> list[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    return [(mark.args, mark.kwargs) for mark in item.iter_markers(MARKER)]


def _limit_bytes(budget: Budget | None) -> int | None:
    if budget is None:
        return None
    return budget.limit_bytes if budget.gib is not None else capacity_of(budget)
