"""Reads and changes pytest's reports of the phases of a marked test."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ..budgets.verdict import ERROR, NO_MEMORY, SKIPPED, UNDECIDED, UNSET
from ..outcomes import BudgetExceeded, BudgetUnchecked
from ..reporting.files.junit import PREFIX, figures
from ..reporting.terminal import failure
from ..reporting.terminal.fitting import folded, terminal_width
from ..results.test_result import TestResult

#: The attribute of a report that has its test's result, which pytest-xdist sends as plain JSON types.
_RESULT = "membudget_result"
#: Verdicts of tests that are skipped.
SKIPS = (SKIPPED, NO_MEMORY)
#: Verdicts of tests that neither pass nor fail, with their letters in pytest's terminal.
_OPEN = {UNSET: "u", UNDECIDED: "?"}


@contextmanager
def reported_by_pytest(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Use pytest's ``repr_failure`` for a budget's failure: a custom item's may not know the exception."""
    error = call.excinfo.value if call.excinfo is not None else None
    is_ours = isinstance(error, (BudgetExceeded, BudgetUnchecked)) and not isinstance(item, pytest.Function)
    if is_ours:
        vars(item)["repr_failure"] = partial(pytest.Item.repr_failure, item)
    try:
        yield
    finally:
        if is_ours:
            vars(item).pop("repr_failure", None)


def failure_text(result: TestResult, folder: Path | None = None) -> str:
    """Why the test of ``result`` fails, in the width of the terminal; ``folder``: of the report."""
    width = terminal_width()
    text = failure.failure_text(result, width)
    if folder is None or result.snapshot is None:
        return text
    path = os.path.relpath(folder / result.snapshot)
    return "\n".join([text, "", *folded([f"Snapshot, for pytorch.org/memory_viz: {path}"], width)])


def attach_result(report: pytest.TestReport, result: TestResult) -> None:
    """Attach ``result`` to ``report``."""
    # a value that pytest-xdist cannot send (a NumPy number in a mark) would end its worker silently
    setattr(report, _RESULT, json.loads(json.dumps(result.to_json())))


def result_in(report: pytest.TestReport) -> TestResult | None:
    """The result attached to ``report``."""
    written = getattr(report, _RESULT, None)
    return TestResult.from_json(written) if written is not None else None


def hand_over_properties(item: pytest.Item, result: TestResult) -> None:
    """Add the figures and the body's recorded properties to ``item``, once even if it is rerun."""
    recorded = [*((name, value) for name, value in result.properties), *figures(result)]
    if result.verdict in _OPEN:  # pytest's JUnit file has it as passed
        recorded.append((f"{PREFIX}verdict", result.verdict))
    item.user_properties += [pair for pair in recorded if pair not in item.user_properties]


def show_warnings(item: pytest.Item, result: TestResult) -> None:
    """Report the warnings of the body of ``item`` as pytest does where it runs."""
    for warning in result.warnings:
        found = {"warning_message": warning.recorded(), "nodeid": item.nodeid, "when": "runtest"}
        item.ihook.pytest_warning_recorded.call_historic(kwargs={**found, "location": None})


def open_status(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Category, letter and word of an unset or undecided test, as pytest's terminal has them; or None."""
    written = getattr(report, _RESULT, None)
    verdict = written["verdict"] if written is not None else None
    if verdict not in _OPEN or not report.passed or is_expected(report):
        return None
    return verdict, _OPEN[verdict], (verdict.upper(), {"yellow": True})


def is_expected(report: pytest.TestReport) -> bool:
    """Whether an xfail mark has turned the failure into an expected one."""
    return hasattr(report, "wasxfail")


def skip_text(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The reason of a skip, or of an xfail mark that lets nothing run."""
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return str(expected)
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def excinfo_of(error: BaseException) -> pytest.ExceptionInfo[BaseException]:
    """``error`` as pytest's ``ExceptionInfo``."""
    try:
        raise error
    except type(error):
        return pytest.ExceptionInfo.from_current()


def failure_line(report: pytest.TestReport) -> str:
    """The line of a failure that names the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longreprtext).strip().splitlines()
    return lines[0] if lines else "without a message"


def finish_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, result: TestResult
) -> None:
    """Point ``report`` at the test; an xfail mark does not hide an unchecked budget."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, (BudgetExceeded, BudgetUnchecked)):
        if not may_be_expected(result):
            _refuse_xfail(item, call, report)
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.path, _, line = result.location.rpartition(":")
            crash.lineno = int(line)
            crash.message = f"{type(error).__name__}: {result.reason_line}"
    elif report.skipped and result.verdict in SKIPS and report.when == "call":
        file, _, line = result.location.rpartition(":")
        report.longrepr = (str(item.config.rootpath / file), int(line), f"Skipped: {result.reason}")


def _refuse_xfail(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Undo an xfail mark that has expected an unchecked budget: only the body's errors can be expected."""
    if hasattr(report, "wasxfail") and call.excinfo is not None:
        del report.wasxfail
        report.outcome = "failed"
        report.longrepr = item.repr_failure(call.excinfo)


def may_be_expected(result: TestResult) -> bool:
    """Whether an xfail mark may expect the failure: over the budget, or the body raised."""
    return result.verdict != ERROR or (result.raised and result.without_strict is None)


def error_for(result: TestResult) -> type[BudgetExceeded] | type[BudgetUnchecked] | None:
    """The exception that ends the test of ``result``."""
    if result.exceeds:
        return BudgetExceeded
    return BudgetUnchecked if result.verdict == ERROR else None
