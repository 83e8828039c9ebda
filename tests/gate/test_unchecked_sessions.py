"""Hooks and plugins that keep a budget from failing: the session fails, and says of which test."""

from textwrap import dedent

import pytest

from tests.gate.given import ALONE, ASKED, XDIST, given_files

TWO = "mem_budget(gib=2)"
FILES = given_files({"test_over": ("takes(3)", TWO), "test_within": ("takes(1)", TWO)})
TURNED = {
    "an outcome": """
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            report.outcome = "passed"
            return report
        """,
    "a skip": """
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if report.failed:
                report.outcome, report.longrepr = "skipped", (__file__, 1, "Skipped: another day")
            return report
        """,
    "a swallowed exception": """
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_call(item):
            try:
                yield
            except BaseException:
                pass
        """,
}
UNMARKED = """
    def pytest_collection_modifyitems(items):
        for item in items:
            if item.name == "test_over":
                item.own_markers.clear()
    """


@pytest.fixture
def session(session_of):
    def run(hooks, others="", more=()):
        if more:
            pytest.importorskip("xdist")
        files = {
            "conftest.py": FILES["conftest.py"] + dedent(hooks),
            "test_budgets.py": FILES["test_budgets.py"] + others,
        }
        return session_of(files, *ASKED, *more, env=ALONE)

    return run


@pytest.mark.parametrize(
    ("kind", "more"), [("an outcome", XDIST), ("a skip", ()), ("a swallowed exception", ())]
)
def test_a_failure_that_is_reported_as_none_fails_the_session(session, kind, more):
    run = session(TURNED[kind], more=more)

    assert "failed" not in run.outcomes.values()
    assert run.status == 1
    [line] = [
        line
        for line in run.lines
        if line.startswith("test_budgets.py::test_over: over, and a hook or plugin")
    ]
    assert line.endswith("1.00 GiB over its budget of 2 GiB")
    assert not any(line.startswith("test_budgets.py::test_within: ") for line in run.lines)


def test_without_such_a_hook_nothing_is_said(session):
    run = session("")

    assert (run.status, run.outcomes["test_over"]) == (1, "failed")
    assert not any("a hook or plugin" in line for line in run.lines)


@pytest.mark.parametrize(
    ("others", "more"), [("", XDIST), ("\ndef test_that_fails():\n    assert False\n", ())]
)
def test_a_budget_whose_mark_was_taken_away_is_named_and_fails(session, others, more):
    run = session(UNMARKED, others, more)

    assert run.outcomes["test_over"] == "passed"
    assert run.status == 1
    [line] = [line for line in run.lines if line.startswith("test_budgets.py::test_over: its budget")]
    assert "was taken away" in line
