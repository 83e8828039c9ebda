"""The results of a session: one for each marked test, estimated when it is first needed."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest

from ..budgets.node_ids import key_of, nodeid_of
from ..budgets.settings import Settings
from ..budgets.verdict import ERROR, NO_MEMORY, NOTHING_ALLOCATED, OVER, SKIPPED, UNSET, WITHIN, Verdict
from ..comparison.comparing import Comparing
from ..comparison.strictness import strictly
from ..errors import MembudgetError
from ..names import OFF, REQUIRE
from ..outcomes import BudgetExceeded
from ..results.estimator import NotEstimated, result_of, without_figure
from ..results.test_result import TestResult, with_measurement
from ..scenarios.items import ScenarioItem
from .estimators import Estimators
from .lock_file import Locking
from .marks import expects_failure, is_marked, marked_test, mistake_text, skip_reason, unchecked_text
from .output import Progress
from .session_results import SessionResults
from .test_reports import error_for, failure_line, may_be_expected, skip_text
from .xdist import End

#: Why a scenario is not measured: it has no body that could run.
_ANALYTIC = "analytic scenario"

#: Key of the item's stash, not a dictionary by node id: two tests may have the same node id.
_RESULT = pytest.StashKey[TestResult]()


class BudgetSession:
    """The marked tests of one session and their results."""

    def __init__(
        self,
        settings: Settings,
        estimators: Estimators,
        comparing: Comparing,
        locking: Locking,
        snapshots: Path | None,
    ) -> None:
        """``snapshots``: where tests over their budgets leave one; None for none."""
        self._settings = settings
        self._snapshots = snapshots
        self._estimators = estimators
        self._comparing = comparing
        self._locking = locking
        #: files that contain marks, and no test with a budget
        self._hiding: list[str] = []
        self._unmarked: list[str] = []
        #: results of the marked tests, from this process or from xdist workers
        self.results = SessionResults()

    def plan(
        self,
        items: Sequence[pytest.Item],
        collected: Sequence[pytest.Item],
        may_hide: Sequence[str],
        had_marks: Collection[str] = (),
    ) -> list[pytest.Item]:
        """Register ``items``, the tests that will run, and return those with a mark.

        ``had_marks``: node ids of the tests that had one when they were collected.
        ``collected``: all tests of whole files. ``may_hide``: files of these whose marks may be applied
        conditionally.
        """
        marked = [item for item in items if is_marked(item)]
        planned = dict.fromkeys(map(nodeid_of, marked))
        self._unmarked = [name for name in map(nodeid_of, items) if name in had_marks and name not in planned]
        with_bodies = {str(item.path): None for item in marked if marked_test(item, self._settings).has_body}
        self._hiding = [file for file in may_hide if file not in with_bodies]
        files = dict.fromkeys([*with_bodies, *self._hiding])
        keys: dict[str, set[str]] = {file: set() for file in self._hiding}
        for item in collected:
            if (file := str(item.path)) in files:
                keys.setdefault(file, set()).add(key_of(item))
        self._estimators.plan(list(files), {file: frozenset(own) for file, own in keys.items()})
        self.results.plan(planned)
        return marked

    def look_for_hidden(self) -> None:
        """Let a worker, which has CUDA, collect files that name the marker and have no marked test here."""
        if self._hiding:
            self._estimators.bodies.collect(self._hiding)

    def estimate(self, items: Sequence[pytest.Item], progress: Progress) -> None:
        """Estimate ``items`` in order, several at once if the machine has room."""
        for item in items:
            test = marked_test(item, self._settings)
            if _RESULT not in item.stash and test.budget is not None:
                with suppress(Exception):  # its result has the reason
                    self._estimators.bodies.expect(test)
        for number, item in enumerate(items, start=1):
            progress(number, item.nodeid)
            result = self.result_of(item)
            # with a base the comparison comes first: growth needs no advice
            if self._comparing.source is None and self._locking.check(result).exceeds:
                result = item.stash[_RESULT] = self._advised(item, result, partial(progress, number))
            self.results.estimated(result)

    def result_of(self, item: pytest.Item) -> TestResult:
        """The result of ``item``, which is estimated now if it was not before."""
        result = item.stash.get(_RESULT, None)
        if result is None:
            result = item.stash[_RESULT] = self._estimated(item)
        return result

    def final(self, item: pytest.Item) -> TestResult:
        """The result of ``item`` with its measurement, or why it has none, and its comparison."""
        result = item.stash[_RESULT] = self._measured(item, self.result_of(item))
        return self._recorded(item, self._advised(item, self._compared(result)))

    def _compared(self, result: TestResult) -> TestResult:
        return self.strict(self._comparing.compare(self._locking.check(result)))

    def skip_reason(self, item: pytest.Item) -> str | None:
        """Why a mark skips ``item`` in this process; None if no mark is known to skip it."""
        return skip_reason(item, is_lifted=self._settings.lift_cuda_skips)

    def strict(self, result: TestResult) -> TestResult:
        """``result`` with ``--membudget-strict`` applied: what passes unchecked fails."""
        return strictly(result) if self._settings.strict else result

    def settle_unrun(self, items: Sequence[pytest.Item]) -> None:
        """Record results under ``--collect-only``, where pytest neither evaluates marks nor makes reports."""
        for item in items:
            reason = self.skip_reason(item)
            if reason is not None:
                self.results.settled(self.skipped(item, reason), expected=False)
                continue
            result = self._advised(item, self._compared(self.result_of(item)))
            error = error_for(result) if may_be_expected(result) else None
            self.results.settled(result, expected=error is not None and expects_failure(item, error))

    def _measured(self, item: pytest.Item, result: TestResult) -> TestResult:
        if result.measurements or result.verdict not in (WITHIN, OVER, UNSET):
            return result
        test = marked_test(item, self._settings)
        if not test.has_body:
            return replace(result, not_measured=_ANALYTIC)
        if result.verdict == OVER:
            return replace(result, not_measured="over budget already")
        if self._settings.measure == OFF:
            return replace(result, not_measured="switched off")
        try:
            found = self._estimators.measurer.estimate(test)
        except NotEstimated as reason:
            missing = replace(result, not_measured=str(reason))
            if self._settings.measure != REQUIRE:
                return missing
            return replace(missing, verdict=ERROR, reason=f"not measured: {reason}; it was required")
        return with_measurement(result, found)

    def _advised(
        self, item: pytest.Item, result: TestResult, trying: Callable[[str], None] = lambda text: None
    ) -> TestResult:
        """``result`` with the changes that reduce its memory, if it fails because it is over its budget.

        ``trying`` is called with the test and the name of each change before it is tried.
        """
        is_done = self._settings.advice == OFF or result.advice is not None
        has_grown = result.growth_bytes > 0 or result.has_outgrown_lock
        if is_done or result.verdict != OVER or not result.exceeds or has_grown:
            return result
        estimate = result.estimate_of_verdict
        if estimate is None or result.measurements or expects_failure(item, BudgetExceeded):
            return result
        if isinstance(item, ScenarioItem):
            limit_bytes = result.limit_bytes
            if limit_bytes is None or estimate.peak_bytes <= limit_bytes or result.details:
                return result
            return replace(result, details=item.what_now(limit_bytes, estimate.peak_bytes))
        test = marked_test(item, self._settings)
        with suppress(MembudgetError):  # the failure says what it is without advice
            bodies = self._estimators.bodies
            advice = bodies.advise(test, estimate, lambda title: trying(f"{item.nodeid} with {title}"))
            return replace(result, advice=advice)
        return result

    def _recorded(self, item: pytest.Item, result: TestResult) -> TestResult:
        """``result`` with a snapshot, if one is asked for of tests that take too much, as this one does."""
        test = marked_test(item, self._settings)
        is_done = result.snapshot is not None or bool(result.snapshot_error)
        if self._snapshots is None or is_done or not result.exceeds or not test.has_body:
            return result
        path, error = self._estimators.bodies.record(test, self._snapshots)
        return replace(result, snapshot=path, snapshot_error=error)

    def skipped(self, item: pytest.Item, reason: str) -> TestResult:
        """The result of a test that pytest skips for ``reason``."""
        result = self.without_estimate(item, SKIPPED, unchecked_text(item, reason))
        return self.strict(self._locking.check(result))

    def ended(self, item: pytest.Item, report: pytest.TestReport) -> TestResult:
        """The result of a test that was skipped, or failed, before it could be estimated."""
        if report.skipped:
            return self.skipped(item, skip_text(report))
        reason = f"it failed before it could be estimated: {failure_line(report)}"
        return self.without_estimate(item, ERROR, reason)

    def skip_file(self, file: str, reason: str) -> None:
        """Record a file with budgets that skips itself on import."""
        why = (
            f"skipped when it was imported ({reason}), so its budgets were not checked; without a GPU "
            "tests with budgets run on a virtual one: guard the others, not the file"
        )
        self.results.file_skipped(self.strict(TestResult(file, f"{file}:1", SKIPPED, why)))

    def without_estimate(self, item: pytest.Item, verdict: str, reason: str) -> TestResult:
        """The result of a test that is not estimated: ``error`` or ``skipped``, with the reason."""
        return result_of(marked_test(item, self._settings), Verdict(verdict, reason))

    def end(self, collected: list[str], unmatched: list[str]) -> End:
        """What this process reports when it ends."""
        remarks = self._estimators.bodies.remarks()
        return End([*self.results.planned], collected, unmatched, self._unmarked, **asdict(remarks))

    def _estimated(self, item: pytest.Item) -> TestResult:
        test = marked_test(item, self._settings)
        if test.mistake:
            return without_figure(test, test.mistake)
        try:
            result = self._estimators.estimate(test)
            if test.is_selected and result.reason == NOTHING_ALLOCATED:
                return replace(result, verdict=NO_MEMORY, reason="takes no GPU memory")
            return result
        except Exception as error:  # it must not end the session
            reason = mistake_text(test.file, test.line, error)
        return result_of(replace(test, budget=None), Verdict(ERROR, reason))
