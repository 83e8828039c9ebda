"""xfail marks: a budget that is exceeded may be expected; one that was not checked may not."""

import pytest

ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ASKED = ("-p", "pytest_membudget.plugin", "-p", "pytest_membudget.testing", "--membudget")
FILES = {
    "conftest.py": """
        from pytest_membudget.testing import GivenEstimates, error, raises, skips, takes

        LARGE = "over", "over_strict", "over_other_error_expected", "over_not_expected", "not_to_be_run"
        ESTIMATES = {
            **dict.fromkeys(LARGE, takes(2)),
            "within": takes(0.5),
            "within_strict": takes(0.5),
            "body_raises": raises("ZeroDivisionError: the user's own error"),
            "gives_itself_up": skips("xfail: not on this day"),
            "nothing_allocated": takes(0),
            "crashes": error("the worker left with status 3"),
        }

        def pytest_membudget_estimates():
            return GivenEstimates({f"test_budgets.py::test_{name}": one for name, one in ESTIMATES.items()})
        """,
    "test_budgets.py": """
        import pytest

        @pytest.mark.xfail
        @pytest.mark.mem_budget(gib=1)
        def test_over(): ...

        @pytest.mark.xfail(strict=True, reason="too large")
        @pytest.mark.mem_budget(gib=1)
        def test_over_strict(): ...

        @pytest.mark.xfail
        @pytest.mark.mem_budget(gib=1)
        def test_within(): ...

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib=1)
        def test_within_strict(): ...

        @pytest.mark.xfail(raises=ZeroDivisionError)
        @pytest.mark.mem_budget(gib=1)
        def test_over_other_error_expected(): ...

        @pytest.mark.xfail(False, reason="does not apply")
        @pytest.mark.mem_budget(gib=1)
        def test_over_not_expected(): ...

        @pytest.mark.xfail
        @pytest.mark.mem_budget(gib=1)
        def test_body_raises(): ...

        @pytest.mark.xfail(run=False)
        @pytest.mark.mem_budget(gib=1)
        def test_not_to_be_run(): ...

        @pytest.mark.mem_budget(gib=1)
        def test_gives_itself_up(): ...

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib="1")
        def test_malformed_mark(): ...

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib=1)
        def test_nothing_allocated(): ...

        @pytest.mark.xfail(strict=True)
        @pytest.mark.mem_budget(gib=1)
        def test_crashes(): ...
        """,
}


@pytest.fixture(scope="module")
def run(session_of):
    """With pytest-xdist; without: ``test_hooks.py``."""
    pytest.importorskip("xdist")
    return session_of(FILES, *ASKED, "-p", "xdist.plugin", "-n2", env=ALONE)


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
    body = """
        import pytest

        @pytest.mark.xfail(run=False)
        @pytest.mark.mem_budget(gib=0)  # which needs no worker
        def test_malformed():
            pass
        """

    run = session_of({"test_budgets.py": body}, "--membudget", "--runxfail")

    assert run.outcomes == {"test_malformed": "failed"}
