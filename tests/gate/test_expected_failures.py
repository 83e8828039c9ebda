"""xfail marks: a budget that is exceeded may be expected; one that was not checked may not."""

import pytest

from tests.gate.given import ALONE, ASKED, XDIST, given_files

ONE = "mem_budget(gib=1)"
#: What each test takes, and its marks.
FILES = given_files({
    "test_over": ("takes(2)", "xfail", ONE),
    "test_over_strict": ("takes(2)", 'xfail(strict=True, reason="too large")', ONE),
    "test_within": ("takes(0.5)", "xfail", ONE),
    "test_within_strict": ("takes(0.5)", "xfail(strict=True)", ONE),
    "test_over_other_error_expected": ("takes(2)", "xfail(raises=ZeroDivisionError)", ONE),
    "test_over_not_expected": ("takes(2)", 'xfail(False, reason="does not apply")', ONE),
    "test_body_raises": ('raises("ZeroDivisionError: the user\'s own error")', "xfail", ONE),
    "test_not_to_be_run": ("takes(2)", "xfail(run=False)", ONE),
    "test_gives_itself_up": ('skips("xfail: not on this day")', ONE),
    "test_malformed_mark": ("", "xfail(strict=True)", 'mem_budget(gib="1")'),
    "test_nothing_allocated": ("takes(0)", "xfail(strict=True)", ONE),
    "test_crashes": ('error("the worker left with status 3")', "xfail(strict=True)", ONE),
})  # fmt: skip


@pytest.fixture(scope="module")
def run(session_of):
    """With pytest-xdist; without: ``test_hooks.py``."""
    pytest.importorskip("xdist")
    return session_of(FILES, *ASKED, *XDIST, env=ALONE)


@pytest.mark.parametrize("name", ["test_over", "test_over_strict"])
def test_an_exceeded_budget_may_be_expected(run, name):
    assert run.outcomes[name] == "xfailed", run.out


def test_a_kept_budget_that_was_expected_to_be_exceeded_passes_or_fails_if_strict(run):
    assert run.outcomes["test_within"] == "passed"
    assert run.outcomes["test_within_strict"] == "failed"
    assert "XPASS(strict)" in run.message("test_within_strict")


@pytest.mark.parametrize("name", ["test_over_other_error_expected", "test_over_not_expected"])
def test_a_mark_that_expects_something_else_expects_no_exceeded_budget(run, name):
    assert run.outcomes[name] == "failed"
    assert run.message(name) == "BudgetExceeded: 1.00 GiB over its budget of 1 GiB"


def test_an_error_of_the_test_itself_may_be_expected(run):
    assert run.outcomes["test_body_raises"] == "xfailed"


@pytest.mark.parametrize("name", ["test_malformed_mark", "test_nothing_allocated", "test_crashes"])
def test_a_budget_that_was_not_checked_is_no_expected_failure(run, name):
    assert run.outcomes[name] == "failed", run.out
    assert run.message(name).startswith("BudgetUnchecked: ")


def test_a_test_that_is_not_to_be_run_is_counted_as_unchecked(run):
    assert run.outcomes["test_not_to_be_run"] == "xfailed"
    assert any(line.startswith("unchecked: test_budgets.py::test_not_to_be_run: ") for line in run.summary)
    assert "test_not_to_be_run" in run.rows
    assert run.rows["test_not_to_be_run"]["verdict"] == "skipped"


def test_a_test_that_gives_itself_up_is_counted_as_unchecked(run):
    assert run.outcomes["test_gives_itself_up"] == "skipped"
    assert any("xfail: not on this day" in line for line in run.summary)


def test_the_summary_says_which_failures_were_expected(run):
    table = [" ".join(line.split()) for line in run.summary]

    assert sum(line.endswith("over (expected)") for line in table) == 2
    assert sum(line.endswith("error (expected)") for line in table) == 1


def test_with_runxfail_nothing_is_expected(session_of):
    files = given_files({"test_malformed": ("", "xfail(run=False)", "mem_budget(gib=0)")})

    run = session_of(files, *ASKED, "--runxfail", env=ALONE)

    assert run.outcomes == {"test_malformed": "failed"}
