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


@pytest.mark.parametrize(
    ("hook", "more"),
    [
        ("pytest_configure(config)", ()),
        ("pytest_sessionstart(session)", ()),
        ("pytest_sessionstart(session)", XDIST),
        ("pytest_collection(session)", ()),
        ("pytest_collection_modifyitems(items)", ()),
        ("pytest_collection_finish(session)", ()),
        ("pytest_collection_finish(session)", ("--collect-only",)),
    ],
)
def test_a_session_that_ends_before_its_tests_run_is_not_green(session, hook, more):
    run = session(f"import pytest\ndef {hook}: pytest.exit('no GPU', 0)\n", more=more)

    assert run.status == 1
    assert "its budget was not checked" in run.out or "no budget was checked" in run.out + run.err


def test_who_lists_markers_or_fixtures_or_ends_with_another_status_is_as_with_pytest(session):
    ends = "import pytest\ndef pytest_sessionstart(session): pytest.exit('no GPU', {})\n"

    assert session("", more=("--fixtures",)).status == 0
    assert session("", more=("--markers",)).status == 0
    assert session("", more=("--cache-show",)).status == 0
    assert session(ends.format(7)).status == 7
    assert session(ends.format(None)).status == 2


@pytest.mark.parametrize(("status", "expected"), [(0, 4), ("None", 4), (3, 3)])
def test_a_conftest_that_ends_python_when_it_is_imported_is_not_green(session, status, expected):
    run = session(f"import sys\nsys.exit({status})\n")

    assert run.status == expected
    assert ("no budget was checked" in run.out + run.err) == (expected == 4)
