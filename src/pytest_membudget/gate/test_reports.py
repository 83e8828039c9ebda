"""What pytest's reports of a marked test's phases say, and what they are made to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ..budgets.verdict import ERROR, SKIPPED
from ..reporting.figures import figures
from ..reporting.rows import Row, exceeds, reason_of
from .outcomes import BudgetExceeded, BudgetUnchecked

#: Under this name a report carries its test's row: through pytest-xdist, which sends plain JSON types.
_ROW = "membudget_row"


@contextmanager
def in_own_words(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Let pytest itself tell a budget's failure: an item of a conftest's may know its own failures alone."""
    error = call.excinfo.value if call.excinfo is not None else None
    is_ours = isinstance(error, (BudgetExceeded, BudgetUnchecked)) and not isinstance(item, pytest.Function)
    if is_ours:
        vars(item)["repr_failure"] = partial(pytest.Item.repr_failure, item)
    try:
        yield
    finally:
        if is_ours:
            vars(item).pop("repr_failure", None)


def attach_row(report: pytest.TestReport, row: Row) -> None:
    """Let ``report`` carry ``row``."""
    setattr(report, _ROW, row)


def row_in(report: pytest.TestReport) -> Row | None:
    """The row that ``report`` carries."""
    row: Row | None = getattr(report, _ROW, None)
    return row


def hand_over_properties(item: pytest.Item, row: Row) -> None:
    """Give ``item`` its figures and what its body recorded in the worker, once however often it is rerun."""
    recorded = [*((name, value) for name, value in row["properties"]), *figures(row)]
    item.user_properties += [pair for pair in recorded if pair not in item.user_properties]


def is_expected(report: pytest.TestReport) -> bool:
    """Whether an xfail mark has taken the failure for what was to come."""
    return hasattr(report, "wasxfail")


def skip_text(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The reason of a skip, or of an xfail mark that lets nothing run."""
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return str(expected)
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def failure_line(report: pytest.TestReport) -> str:
    """The line of a failure that names the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash is not None else report.longreprtext).strip().splitlines()
    return lines[0] if lines else "without a word"


def finish_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, row: Row
) -> None:
    """Make ``report`` tell the place of the mark, and let no xfail mark swallow an unchecked budget."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, (BudgetExceeded, BudgetUnchecked)):
        if row["verdict"] == ERROR and not row["raised"]:
            _refuse_xfail(item, call, report)
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.path, crash.lineno = row["file"], row["line"]
            crash.message = f"{type(error).__name__}: {reason_of(row)}"
    elif report.skipped and row["verdict"] == SKIPPED and report.when == "call":
        report.longrepr = (str(item.config.rootpath / row["file"]), row["line"], f"Skipped: {row['reason']}")


def _refuse_xfail(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A budget that was held against nothing is no expected failure: only the body's own errors are."""
    if hasattr(report, "wasxfail") and call.excinfo is not None:
        del report.wasxfail
        report.outcome = "failed"
        report.longrepr = item.repr_failure(call.excinfo)


def error_for(row: Row) -> type[BudgetExceeded] | type[BudgetUnchecked] | None:
    """The exception that ``row``'s test ends by."""
    if exceeds(row):
        return BudgetExceeded
    return BudgetUnchecked if row["verdict"] == ERROR else None
