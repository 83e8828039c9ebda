"""The gate: a plugin object that estimates the marked tests of a session and makes them pass or fail."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .config import DEFAULT_GPU, Settings
from .outcomes import BodyNotRun, BudgetExceeded, BudgetUnchecked
from .progress import ProgressLine
from .reporting.failure import failure_text
from .reporting.rows import Row
from .session import BudgetSession, guard_of, is_marked
from .verdict import ERROR, OVER, SKIPPED

#: Under this key a report carries its row from an xdist worker to the controller.
REPORT_KEY = "membudget_row"
_ROW = pytest.StashKey[Row]()
_SKIPPED_HERE = "it skips itself in this process"


class Gate:
    """Marked tests run nothing in the user's process: they pass or fail by what the worker found out."""

    def __init__(self, config: pytest.Config, settings: Settings, report_folder: Path | None) -> None:
        self._config = config
        self._settings = settings
        self._report_folder = report_folder
        self._session = BudgetSession(settings, config.rootpath, *_invocation(config))
        self._is_xdist_worker = hasattr(config, "workerinput")
        #: rows by test, from here or from xdist workers, and why a marked test was not checked
        self.rows: dict[str, Row] = {}
        self.unchecked: dict[str, str] = {}
        self._expected: set[str] = set()

    def pytest_report_header(self) -> str:
        """One line: what is modelled."""
        gpu = self._settings.gpu
        card = gpu or f"{DEFAULT_GPU} (no gpu named: its size limits nothing)"
        return f"membudget: estimates on a virtual {card}; this release measures nothing"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Estimate what will run; an xdist worker waits until it is given a test."""
        marked = self._session.plan(session.items)
        if self._is_xdist_worker or not marked:
            return
        with ProgressLine(self._config, len(marked)) as progress:
            self._session.estimate_all(marked, progress.step)
        self._session.close()
        self.rows = dict(self._session.rows)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """``--collect-only`` gates too: nothing runs, so the failures are counted here."""
        result = yield
        if self._config.option.collectonly:
            session.testsfailed += sum(row["verdict"] in (OVER, ERROR) for row in self.rows.values())
        return result

    # Not tryfirst: skip and xfail marks are looked at before, fixtures are set up after.
    @pytest.hookimpl()
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """No fixture of a marked test is set up here: they are for the worker."""
        if is_marked(item):
            item.stash[_ROW] = self._session.row_of(item)
            raise BodyNotRun

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Pass or fail by the estimate; the body does not run here."""
        row = item.stash.get(_ROW, None)
        if row is None:
            return
        if row["verdict"] == OVER:
            raise BudgetExceeded(failure_text(row))
        if row["verdict"] == ERROR:
            raise BudgetUnchecked(failure_text(row))
        if row["verdict"] == SKIPPED:
            pytest.skip(f"on the virtual device: {row['reason']}")
        raise BodyNotRun

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A phase that was left out has passed; the report of a failure points at the mark."""
        if call.excinfo is not None and isinstance(call.excinfo.value, BodyNotRun):
            call.excinfo = None
        report = yield
        if not is_marked(item):
            return report
        row = item.stash.get(_ROW, None)
        if row is not None and report.when == "call":
            if row["verdict"] == ERROR and not row["raised"] and call.excinfo is not None:
                _refuse_xfail(item, call.excinfo, report)
            _attach(report, row)
        elif row is None and report.when == "setup":
            setattr(report, REPORT_KEY, {"nodeid": item.nodeid, "unchecked": _unchecked_text(item)})
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the rows, from here and from xdist workers."""
        row: Row | None = getattr(report, REPORT_KEY, None)
        if row is None:
            return
        if "unchecked" in row:
            self.unchecked[row["nodeid"]] = row["unchecked"]
            self.rows.pop(row["nodeid"], None)
            return
        self.rows[row["nodeid"]] = row
        if hasattr(report, "wasxfail"):
            self._expected.add(row["nodeid"])
        if row["verdict"] == SKIPPED:
            self.unchecked[row["nodeid"]] = f"skipped on the virtual device: {row['reason']}"

    def pytest_sessionfinish(self) -> None:
        """End the worker, and write the report."""
        self._session.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table, and under ``--collect-only`` the failures, which have no other place there."""
        from .reporting.console import summary_lines

        if not self.rows and not self.unchecked:
            return
        terminalreporter.section("membudget: GPU memory budgets")
        if self._config.option.collectonly:
            for row in self.rows.values():
                if row["verdict"] in (OVER, ERROR):
                    terminalreporter.line(f"{row['nodeid']}\n{failure_text(row)}\n", red=True)
        for line in summary_lines(list(self.rows.values()), self.unchecked, self._expected):
            terminalreporter.line(line)
        self._write(terminalreporter)

    def _write(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._report_folder is None:
            return
        from .reporting.json_file import write_report

        try:
            path = write_report(self._report_folder, self._config.rootpath, list(self.rows.values()))
        except OSError as error:
            terminalreporter.line(f"membudget: the report could not be written: {error}", red=True)
        else:
            terminalreporter.line(f"report: {path}")


def _invocation(config: pytest.Config) -> tuple[list[str], str]:
    """The command line to repeat in a worker, and where it was given; an xdist worker has it from afar."""
    given: Mapping[str, Any] | None = getattr(config, "workerinput", {}).get("membudget")
    if given is not None:
        return list(given["args"]), given["dir"]
    return [str(arg) for arg in config.invocation_params.args], str(config.invocation_params.dir)


def _refuse_xfail(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport
) -> None:
    """A budget that was held against nothing is no expected failure: only the body's own errors are."""
    if hasattr(report, "wasxfail"):
        del report.wasxfail
        report.outcome = "failed"
        report.longrepr = item.repr_failure(excinfo)


def _attach(report: pytest.TestReport, row: Row) -> None:
    # plain JSON types only: one value that xdist cannot send ends its worker without a word
    setattr(report, REPORT_KEY, json.loads(json.dumps(row)))
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and crash is not None:
        crash.path, crash.lineno = row["file"], row["line"]
        kind = BudgetExceeded if row["verdict"] == OVER else BudgetUnchecked
        crash.message = f"{kind.__name__}: {row['reason']}"


def _unchecked_text(item: pytest.Item) -> str:
    guard = guard_of(item)
    if guard is None:
        return _SKIPPED_HERE
    return (
        f"its own guard {guard} skips it here, so its budget was not checked; take the guard off: "
        "without a GPU the test runs on a virtual one, in a process where torch.cuda.is_available() is True"
    )
