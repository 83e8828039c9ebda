"""Estimates scenarios by arithmetic: those with ``implementation: formulas``."""

from __future__ import annotations

import traceback

from ..budgets.marked_test import MarkedTest
from ..budgets.verdict import ERROR, OVER, Verdict, judge
from ..errors import MembudgetError
from ..formulas.changes import knobs_for
from ..formulas.reports import reports_of
from ..hardware.machines import GPUS_A_MACHINE, fullest_machine
from ..results.estimator import Estimator, result_of
from ..results.test_result import TestResult
from .items import ScenarioTest


class AnalyticEstimator(Estimator):
    """Estimates scenarios by formulas, in the session's own process."""

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of a ``ScenarioTest``; a scenario that cannot be computed is an error."""
        assert isinstance(test, ScenarioTest)
        assert test.budget is not None
        budget, place = test.budget, f"{test.file}:{test.line}"
        try:
            reports = reports_of(test.job, budget.metric, budget.gpu)
        except MembudgetError as error:
            return result_of(test, Verdict(ERROR, f"{place}: {error}"))
        except Exception as error:  # a defect of a formula fails one test, not the session
            what = f"{place}: the formulas failed: {type(error).__name__}: {error}"
            return result_of(test, Verdict(ERROR, what), details=traceback.format_exc())
        machine = fullest_machine(reports, budget.gpus, min(budget.gpus, GPUS_A_MACHINE))
        held = machine.host_bytes if machine is not None and machine.host_bytes else None
        verdict = judge(budget, reports, machine)
        details = _what_now(test) if verdict.name == OVER else ""
        return result_of(test, verdict, estimates=reports, details=details, host_bytes=held)


def _what_now(test: ScenarioTest) -> str:
    """Changes that would make it fit, each with its figure."""
    limit_bytes = test.budget.limit_bytes if test.budget is not None else None
    knobs = knobs_for(test.job, limit_bytes) if limit_bytes is not None else ()
    lines = [knob.line for knob in knobs]
    return "\n".join(["What would lower it, the cheapest in speed first:", *lines]) if lines else ""
