"""Only what will run is estimated, whatever chose it; reruns and the order of things change no verdict."""

import pytest

FILES = {
    "traced": "",  # what a test makes is removed, and what it appends to is not
    "conftest.py": """
        import pytest

        @pytest.fixture(autouse=True)
        def traced(request):
            if request.node.get_closest_marker("mem_budget"):
                with open("traced", "a") as file:
                    file.write(request.node.name + "\\n")
        """,
    "pyproject.toml": """
        [tool.pytest.ini_options]
        markers = ["slow: takes long"]
        """,
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_small():
            hold(0.5)

        @pytest.mark.mem_budget(gib=1)
        def test_large():
            hold(2)

        @pytest.mark.mem_budget(gib=1)
        def test_huge():
            hold(3)

        @pytest.mark.slow
        @pytest.mark.mem_budget(gib=1)
        def test_slow():
            hold(0.5)

        def test_plain():
            pass
        """,
}
MARKED = ["test_small", "test_large", "test_huge", "test_slow"]


@pytest.fixture(scope="module")
def first(session_of):
    return session_of(FILES, "--membudget", report=False)


def traced(run):
    path = run.folder / "traced"
    names = path.read_text().split()
    path.write_text("")
    return names


@pytest.fixture
def rerun(first, again):
    """Runs again in the folder of the first run; no test is traced at the start."""
    traced(first)
    return lambda *args: again(first, "--membudget", *args)


def test_only_what_was_chosen_is_estimated(rerun):
    run = rerun("-k", "not small", "-m", "not slow", "--deselect", "test_budgets.py::test_large")

    assert traced(run) == ["test_huge"]
    assert run.outcomes == {"test_huge": "failed", "test_plain": "passed"}


def test_with_last_failed_only_the_failures_are_estimated(rerun):
    pytest.importorskip("xdist")

    run = rerun("--lf", "-n2")

    assert set(traced(run)) == {"test_large", "test_huge"}
    assert run.outcomes == {"test_large": "failed", "test_huge": "failed"}


def test_a_rerun_failure_is_traced_once_and_reported_once(rerun):
    pytest.importorskip("pytest_rerunfailures")

    run = rerun("--reruns=2", "--membudget-report=membudget")

    assert sorted(traced(run)) == sorted(MARKED)  # two at once: either may begin
    assert "2 failed, 3 passed, 4 rerun" in run.out
    assert [row["nodeid"] for row in run.report["tests"]] == [f"test_budgets.py::{name}" for name in MARKED]


def test_required_measuring_without_a_card_fails_with_the_reason(rerun):
    run = rerun("-k", "small", "--membudget-measure=require")

    assert run.outcomes == {"test_small": "failed"}
    assert run.message("test_small").startswith("BudgetUnchecked: not measured: no CUDA: ")


def test_a_session_without_marked_tests_starts_no_worker_and_says_nothing(rerun):
    run = rerun("-k", "plain")

    assert run.outcomes == {"test_plain": "passed"}
    assert not run.summary
    assert not traced(run)
