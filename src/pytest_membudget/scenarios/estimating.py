"""A scenario's estimate: from its fields through the formulas to a verdict."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..analytic.estimate import estimate
from ..analytic.figures import report_of
from ..analytic.job import Job
from ..budget import Budget
from ..components import GRADIENTS, OPTIMIZER_STATES
from ..errors import MembudgetError, UsageMistake
from ..estimate import Estimate, capacity_of
from ..machines import GPUS_A_MACHINE, fullest_machine
from ..report import MemoryReport
from ..verdict import ERROR, Verdict, judge
from .grid import Point
from .jobs import Scenario, ScenarioReader

#: Jobs whose figures one process keeps: scenarios that differ in their budgets alone share one.
_KEPT = 1024


def estimate_point(
    point: Point, reader: ScenarioReader, defaults: Mapping[str, Any]
) -> tuple[Budget | None, Estimate]:
    """The budget and the estimate of ``point``; a scenario that cannot be reckoned is an error."""
    try:
        scenario = reader.read(point, defaults)
    except UsageMistake as error:
        first, _, rest = str(error).partition("\n")
        return None, Estimate(Verdict(ERROR, first), details=rest)
    try:
        reports = reports_of(scenario)
    except MembudgetError as error:
        return scenario.budget, Estimate(Verdict(ERROR, f"{point.node.place}: {error}"))
    except Exception as error:  # a defect of the formulas costs one test its figure, not the session
        what = f"{point.node.place}: the formulas failed: {type(error).__name__}: {error}"
        return None, Estimate(Verdict(ERROR, what), details=traceback.format_exc())
    budget = scenario.budget
    if scenario.job.task == "generate" and any(_trains(report) for report in reports):
        what = f"{point.node.place}: generate: these formulas do not reckon generation with this model"
        return scenario.budget, Estimate(Verdict(ERROR, what))
    machine = fullest_machine(reports, budget.gpus, min(budget.gpus, GPUS_A_MACHINE))
    verdict = judge(budget, reports, capacity_of(budget), machine)
    held = machine.host_bytes if machine is not None and machine.host_bytes else None
    return budget, Estimate(verdict, reports, host_bytes=held)


def _trains(report: MemoryReport) -> bool:
    """Whether there is something in it that only training has."""
    return bool(report.components[GRADIENTS] or report.components[OPTIMIZER_STATES])


def reports_of(scenario: Scenario) -> tuple[MemoryReport, ...]:
    """The report of each set of alike ranks."""
    return _reports(scenario.job, scenario.budget.metric)


@lru_cache(maxsize=_KEPT)
def _reports(job: Job, metric: str) -> tuple[MemoryReport, ...]:
    began = time.perf_counter()
    figures = estimate(job)
    seconds = time.perf_counter() - began
    return tuple(report_of(figure, metric, seconds) for figure in figures)
