"""Estimates scenarios: those that are tests, and those that a marked test names."""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..budgets.budget import Budget
from ..budgets.marked_test import MarkedTest
from ..budgets.verdict import ERROR, OVER, Verdict, judge
from ..errors import MembudgetError, UsageMistake
from ..formulas.estimate import estimate
from ..formulas.figures import report_of
from ..formulas.job import Job
from ..formulas.knobs import knobs_for, largest_micro_batch, lines_of
from ..hardware.machines import GPUS_A_MACHINE, fullest_machine
from ..memory_report import MemoryReport
from ..results.estimator import Estimator, result_of, without_figure
from ..results.test_result import TestResult
from ..units import gib_text
from ..user_input.nodes import nearest
from .grid import points_of
from .items import ScenarioTest
from .jobs import Scenario, read_scenario
from .reading import Entry, read_entries

#: Jobs whose figures a process keeps: scenarios that differ only in their budgets share them.
_KEPT = 1024
#: Over-budget scenarios of a file that list what reduces memory: each takes some thirty estimates.
_ADVISED = 20


class AnalyticEstimator(Estimator):
    """Estimates scenarios by formulas, in the session's own process."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        """``defaults``: the settings' defaults of budgets."""
        self._defaults = defaults
        #: failures that have listed what reduces memory, by file
        self._advised = Counter[str]()

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of a ``ScenarioTest``; a scenario that cannot be computed is an error."""
        assert isinstance(test, ScenarioTest)
        entry = test.entry
        try:
            scenario = read_scenario(entry, Path(test.path).parent, self._defaults)
        except UsageMistake as error:
            return without_figure(test, str(error))
        budget = scenario.budget
        known = replace(test, budget=budget)
        try:
            reports = _reports(scenario.job, budget.metric)
        except MembudgetError as error:
            return result_of(known, Verdict(ERROR, f"{entry.node.place}: {error}"))
        except Exception as error:  # a defect of a formula fails one test, not the session
            what = f"{entry.node.place}: the formulas failed: {type(error).__name__}: {error}"
            return result_of(test, Verdict(ERROR, what), details=traceback.format_exc())
        machine = fullest_machine(reports, budget.gpus, min(budget.gpus, GPUS_A_MACHINE))
        verdict = judge(budget, reports, machine)
        held = machine.host_bytes if machine is not None and machine.host_bytes else None
        is_advised = verdict.name == OVER and self._advised[entry.node.file] < _ADVISED
        self._advised[entry.node.file] += is_advised
        details = _what_now(scenario) if is_advised else ""
        return result_of(known, verdict, estimates=reports, details=details, host_bytes=held)


def _what_now(scenario: Scenario) -> str:
    """Changes that would make it fit, each with its figure."""
    job, budget = scenario.job, scenario.budget
    limit_bytes = budget.limit_bytes
    if limit_bytes is None:
        return ""

    def peak_of(changed: Job) -> int:
        try:
            return max(report.peak_bytes for report in _reports(changed, budget.metric))
        except UsageMistake:  # not possible with this model or layout
            return sys.maxsize

    knobs = knobs_for(job, limit_bytes, peak_of)
    lines = ["What would lower it, the cheapest in speed first:", *lines_of(knobs, gib_text)] if knobs else []
    most = largest_micro_batch(job, limit_bytes, peak_of)
    return "\n".join([*lines, f"The largest micro-batch that fits as it is: {most or 'none'}"])


@lru_cache(maxsize=_KEPT)
def _reports(job: Job, metric: str) -> tuple[MemoryReport, ...]:
    began = time.perf_counter()
    figures = estimate(job)
    seconds = time.perf_counter() - began
    return tuple(report_of(figure, metric, seconds) for figure in figures)


def analytic_reports(
    budget: Budget, test_file: Path, defaults: Mapping[str, Any]
) -> tuple[MemoryReport, ...]:
    """The reports of the scenario that ``budget`` names as ``file::name``, from ``test_file``'s folder.

    They are of the budget's metric. Raises ``UsageMistake`` for a scenario that is not there, cannot be
    computed or is for another number of GPUs.
    """
    assert budget.scenario is not None
    place = f"mem_budget(scenario={budget.scenario!r})"
    written, _, name = budget.scenario.partition("::")
    path = test_file.parent / written
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        what = f"cannot be read ({error.strerror}); write the file's path from {test_file.parent}"
        raise UsageMistake(f"{place}: {path} {what}") from None
    points = _points(path, written, changed)
    if name not in points:
        near = nearest(name, tuple(points))
        hint = f"did you mean {near}?" if near else f"it has {', '.join(list(points)[:20])}"
        raise UsageMistake(f"{place}: {written} has no {name}; {hint}")
    scenario = read_scenario(points[name], path.parent, defaults)
    gpus = scenario.budget.gpus
    if gpus != budget.gpus:
        remedy = f"write gpus={gpus}, or a scenario of as many"
        raise UsageMistake(f"{place} is for {gpus} GPUs and the test for {budget.gpus}; {remedy}")
    return _reports(scenario.job, budget.metric)


@lru_cache(maxsize=64)
def _points(path: Path, shown: str, changed: int) -> Mapping[str, Entry]:
    return {point.name: point for entry in read_entries(path, shown) for point in points_of(entry)}
