"""Estimates scenarios by arithmetic: those with ``implementation: formulas``."""

import traceback

from ..budgets.marked_test import MarkedTest
from ..errors import MembudgetError
from ..formulas.reports import reports_of
from ..results.answer import TRACED, Answer, read_answer
from ..results.estimator import Estimator, without_figure
from ..results.test_result import TestResult
from .items import ScenarioTest


class AnalyticEstimator(Estimator):
    """Estimates scenarios by formulas, in the session's own process."""

    def estimate(self, test: MarkedTest) -> TestResult:
        """The result of a ``ScenarioTest``; a scenario that cannot be computed is an error."""
        assert isinstance(test, ScenarioTest)
        assert test.budget is not None
        try:
            reports = reports_of(test.job, test.budget.metric, test.budget.gpu)
        except MembudgetError as error:
            return without_figure(test, f"{test.location}: {error}")
        except Exception as error:  # a defect of a formula fails one test, not the session
            what = f"{test.location}: the formulas failed: {type(error).__name__}: {error}"
            return without_figure(test, f"{what}\n{traceback.format_exc()}")
        return read_answer(test, Answer(TRACED, reports=reports))
