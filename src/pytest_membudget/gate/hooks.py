"""The gate: a plugin object that estimates the marked tests of a session and makes them pass or fail."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..budgets.node_ids import nodeid_of
from ..budgets.settings import Settings
from ..budgets.verdict import ERROR
from ..comparison.base.sources import Source
from ..comparison.comparing import Comparing
from ..names import MARKER, OVER_ALONE
from ..outcomes import BodyNotRun, BudgetUnchecked
from ..reporting.terminal.console import comparison_notices
from ..reporting.terminal.fitting import folded
from ..results.test_result import TestResult
from . import test_reports as reports
from .estimators import Estimators
from .lock_file import Locking
from .marks import is_marked
from .output import Summary, progress_line
from .selection import Selection, is_whole, lists_removed, only_asks, report_folder, requested_files
from .session import BudgetSession
from .xdist import End, end_of, is_first, is_worker, send_end, send_start, start_of

_RESULT = pytest.StashKey[TestResult]()
_LATE = (
    "its mark was added while the test was being run, too late for its budget to be checked; "
    "add it at collection, for instance in pytest_collection_modifyitems"
)


class Gate:
    """Passes or fails marked tests by their estimates; their bodies do not run in the user's process."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        selection: Selection,
        estimators: Estimators,
        source: Source | None,
        locking: Locking,
    ) -> None:
        """``selection``: marks tests that have no mark. ``source``: what results are compared with."""
        self._config = config
        self._settings = settings
        self._selection = selection
        #: all tests, and node ids of those with budgets, deselected ones included
        self._items: list[pytest.Item] = []
        self._collected: dict[str, None] = {}
        #: files that may have budgets, as far as they are known
        self._to_import: list[str] = []
        #: files whose marks may be applied conditionally
        self._may_hide: list[str] = []
        #: files could not be collected, so that there may be tests which this session does not know
        self._is_incomplete = False
        #: what workers of pytest-xdist have reported at their end; None for one that crashed
        self._ends: list[End | None] = []
        self._start = start = start_of(config)
        self._is_worker = is_worker(config)
        self._report_folder = report_folder(config, start.dir)
        of_over = self._report_folder if settings.snapshots == OVER_ALONE else None
        self.estimators = estimators
        self._comparing = Comparing(source, start, settings.timeout)
        self.session = BudgetSession(settings, self.estimators, self._comparing, locking, of_over)
        self._locking = locking
        self._nothing_runs = bool(config.option.collectonly or config.option.setuponly)
        self._only_asks = only_asks(config)
        self._results = self.session.results
        self._summary = Summary(config, self._results, is_listing=self._nothing_runs)
        if self.estimators.is_given:
            self._summary.add(f"membudget: {self.estimators.header}", is_bad=True)

    def pytest_report_header(self) -> list[str]:
        """The lines in the header: device, card and options."""
        header = f"membudget: {self.estimators.header}"
        if self._settings.strict:
            header += "; strict: what is not checked fails"
        if self._comparing.source is not None:
            header += f"; compares with {self._comparing.source.shown}"
        return [*folded([header], self._config.get_terminal_writer().fullwidth)]

    def pytest_pycollect_makemodule(self, module_path: Path) -> None:
        """Prepare for workers as soon as there may be budgets: the module is imported meanwhile."""
        if not self._only_asks and self._may_have_budgets(module_path):
            self.estimators.begin_template()
            self._to_import.append(str(module_path))

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Begin a worker when the first file with budgets is imported, where all its tests run."""
        is_file = isinstance(collector, pytest.Module) and str(collector.path) in self._to_import
        if is_file and is_whole(self._config) and not self._is_worker:
            self.estimators.begin_worker(self._to_import)

    def _may_have_budgets(self, path: Path) -> bool:
        text = path.read_text(encoding="utf-8", errors="replace")
        return MARKER in text or self._selection.covers(path)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Record all tests, before deselection."""
        self._items.append(item)
        if is_marked(item):
            self._collected[nodeid_of(item)] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a file that skips itself; record files whose marks may be applied conditionally."""
        self._is_incomplete |= not report.passed
        path = self._config.rootpath / report.nodeid.partition("::")[0]
        is_file = not report.failed and "::" not in report.nodeid and path.is_file()
        if not is_file or not self._may_have_budgets(path):
            return
        if report.passed and path.suffix == ".py":
            self._may_hide.append(str(path))
        if report.skipped and not self._is_worker:
            self.session.skip_file(report.nodeid, reports.skip_text(report))

    # before pytest-xdist reports to its controller that this is known
    @pytest.hookimpl(tryfirst=True, specname="pytest_collection_finish")
    def pytest_membudget_select_base(self, session: pytest.Session) -> None:
        """Record which tests will run, and which the base has to estimate."""
        if not self._only_asks:
            planned = [nodeid_of(item) for item in session.items if is_marked(item)]
            self._results.plan(planned)
            self._comparing.plan_head(planned, dict.fromkeys((*self._collected, *planned)))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Estimate what will run; an xdist worker waits until it is given a test."""
        if self._only_asks:
            return
        whole_files = (self._items, self._may_hide) if lists_removed(self._config) else ([], [])
        marked = self.session.plan(session.items, *whole_files, self._collected)
        if is_first(self._config) and (session.items or not self._items):  # else nothing passes anyway
            self.session.look_for_hidden()
        cannot_run = session.testsfailed and not self._config.option.continue_on_collection_errors
        if self._is_worker or cannot_run or not marked:
            return
        self._comparing.begin(requested_files(self._config))
        to_estimate = [item for item in marked if self.session.skip_reason(item) is None]
        with progress_line(self._config, len(to_estimate)) as progress:
            self.session.estimate(to_estimate, progress)
        if self._config.option.collectonly:
            self.session.settle_unrun(marked)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Count failures where no test runs (``--collect-only``, ``--setup-only``), for the exit status."""
        result = yield
        if self._nothing_runs and not self._is_worker:
            session.testsfailed += len(self._results.failing())
        return result

    # Not tryfirst: skip and xfail marks are looked at before, fixtures are set up after.
    @pytest.hookimpl()
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set up no fixture of a marked test: the worker does that."""
        if is_marked(item):
            item.stash[_RESULT] = self.session.result_of(item)
            raise BodyNotRun

    @pytest.hookimpl(tryfirst=True, specname="pytest_runtest_setup")
    def pytest_membudget_lift_skips(self, item: pytest.Item) -> None:
        """With ``lift_cuda_skips``, estimate before pytest evaluates skip marks: the worker does that."""
        if self._settings.lift_cuda_skips and self.session.skip_reason(item) is None:
            self.pytest_runtest_setup(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Pass or fail by the estimate; the body does not run here."""
        result = item.stash.get(_RESULT, None)
        if result is None:
            return
        reports.hand_over_properties(item, result)
        reports.show_warnings(item, result)
        result = item.stash[_RESULT] = self.session.final(item)
        error = reports.error_for(result)
        if error is not None:
            raise error(reports.failure_text(result, self._report_folder), pytrace=False)
        if result.verdict in reports.SKIPS:
            pytest.skip(result.reason)
        raise BodyNotRun

    @pytest.hookimpl(trylast=True, specname="pytest_runtest_call")
    def pytest_membudget_late_mark(self, item: pytest.Item) -> None:
        """Fail a test that was marked while it ran: its budget was not checked."""
        if is_marked(item) and _RESULT not in item.stash:
            item.stash[_RESULT] = result = self.session.without_estimate(item, ERROR, _LATE)
            raise BudgetUnchecked(reports.failure_text(result), pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a phase that was not run as passed; point the report of a failure at the test."""
        if call.excinfo is not None and isinstance(call.excinfo.value, BodyNotRun):
            call.excinfo = None
        is_refused = self._refuses_skip(item, call)
        with reports.reported_by_pytest(item, call):
            report = yield
        if is_refused:  # only now: pytest-rerunfailures has to see each test's setup
            report.when = "call"
        if is_marked(item) and report.when in ("setup", "call"):
            result = item.stash.get(_RESULT, None)
            if result is None and not report.passed:
                result = self.session.ended(item, report)
            if result is not None and (report.when == "call" or not report.passed or self._nothing_runs):
                reports.finish_report(item, call, report, result)
                reports.attach_result(report, result)
        return report

    def _refuses_skip(self, item: pytest.Item, call: pytest.CallInfo[None]) -> bool:
        """Under ``--membudget-strict``, fail a marked test that pytest skips; whether it is one."""
        if not self._settings.strict or call.when != "setup" or call.excinfo is None or not is_marked(item):
            return False
        error = call.excinfo.value
        if not isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception)) or _RESULT in item.stash:
            return False
        result = self.session.skipped(item, str(error.msg))
        if result.verdict == ERROR:
            item.stash[_RESULT] = result
            unchecked = BudgetUnchecked(reports.failure_text(result), pytrace=False)
            call.excinfo = reports.excinfo_of(unchecked)
        return result.verdict == ERROR

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Unset and undecided tests have separate outcomes: they neither pass nor fail."""
        return reports.open_status(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect results, from this process and from xdist workers."""
        result = reports.result_in(report)
        if result is not None:
            expected = reports.is_expected(report)
            self._results.settled(result, expected=expected, outcome=report.outcome)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send an xdist worker the controller's command line and the folder of the base's results."""
        template = self.estimators.begin_template()
        send_start(node, replace(self._start, exchange=self._comparing.folder, template=template))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Start the base's run: an xdist worker has reported which tests run."""
        self._comparing.begin(requested_files(self._config))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect what an xdist worker reports at its end: the tests that were to run."""
        self._ends.append(end_of(node))

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """Disable pytest-timeout for tests that do not run here: the worker has its time limit."""
        return True if is_marked(item) else None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Close the workers, fail budgets without a result, and write the report."""
        self.estimators.close()
        own = self.session.end([*self._collected], self._selection.unmatched)
        if self._is_worker:
            send_end(self._config, own)
            return
        ends = [end for end in self._ends if end is not None] or [own]
        for end in ends:
            self._results.plan(end.planned)
            self._collected.update(dict.fromkeys(end.collected))
            self._summary.add_not_cached(end.cache_trouble, end.not_cached)
        self._refuse_unchecked(session, ends)
        has_run_all = is_whole(self._config) and not self._results.not_run()
        compared = self._comparing.session(
            self._results.in_order(), is_whole=has_run_all, lists_removed=lists_removed(self._config)
        )
        self._comparing.close()
        self._summary.add(*comparison_notices(compared), *self._comparing.notes)
        if self._report_folder is not None and not self._only_asks:
            self._summary.write_report(self._report_folder, compared, is_given=self.estimators.is_given)
        knows_all = has_run_all and not self._is_incomplete
        self._summary.update_lock(session, self._locking, self._collected if knows_all else None)
        self._summary.print_without_terminal()

    def pytest_unconfigure(self) -> None:
        """Close the base's run, also of a session that did not finish."""
        self.estimators.close()
        self._comparing.close()

    def _refuse_unchecked(self, session: pytest.Session, ends: Sequence[End]) -> None:
        """Fail a session that would pass although a budget was not checked, or has failed."""
        if session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self._summary.add(*self._results.unfinished(), is_bad=True)
        is_green = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        texts = self._results.unchecked(ends)
        if is_green:  # else it was interrupted, or says so already
            texts += self._results.forgotten(ends, is_whole=is_whole(self._config))
            if self._ends and not any(self._ends):
                texts.append("an xdist worker ended without reporting its budgets")
        if texts and is_green:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._summary.add(*texts, is_bad=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section of the budgets."""
        self._summary.print_to(terminalreporter)
