"""Estimates scenarios by arithmetic: those with ``implementation: formulas``."""

import traceback

from ..budgets.marked_test import MarkedTest
from ..budgets.verdict import ERROR, Verdict, judge
from ..errors import MembudgetError
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
        budget, place = test.budget, test.location
        try:
            reports = reports_of(test.job, budget.metric, budget.gpu)
        except MembudgetError as error:
            return result_of(test, Verdict(ERROR, f"{place}: {error}"))
        except Exception as error:  # a defect of a formula fails one test, not the session
            what = f"{place}: the formulas failed: {type(error).__name__}: {error}"
            return result_of(test, Verdict(ERROR, what), details=traceback.format_exc())
        machine = fullest_machine(reports, budget.gpus, min(budget.gpus, GPUS_A_MACHINE))
        held = machine.host_bytes if machine is not None and machine.host_bytes else None
        return result_of(test, judge(budget, reports, machine), estimates=reports, host_bytes=held)
