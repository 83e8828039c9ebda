"""A figure with a margin, and a budget between the two: neither passed nor failed; a failure if strict."""

import pytest

FILES = {
    "conftest.py": """
        from pytest_membudget.testing import GivenEstimates, takes

        def pytest_membudget_estimates():
            figures = {"test_within": 1, "test_between": 1.75, "test_over": 3, "test_bare": 1}
            return GivenEstimates(
                {f"test_it.py::{name}": takes(gib, margin=0.25) for name, gib in figures.items()}
            )
        """,
    "test_it.py": """
        import pytest

        @pytest.mark.mem_budget(gib=2)
        def test_within(): ...

        @pytest.mark.mem_budget(gib=2)
        def test_between(): ...

        @pytest.mark.mem_budget(gib=2)
        def test_over(): ...

        @pytest.mark.mem_budget()
        def test_bare(): ...
        """,
}
ASKED = ("--membudget", "--membudget-report", "out", "-p", "pytest_membudget.testing")
REASON = "allocated 1.75 GiB, up to 2.19 GiB with its margin of 25%: its budget of 2.00 GiB is between"


@pytest.fixture(scope="module")
def run(session_of):
    return session_of(FILES, *ASKED)


def test_it_is_counted_and_said(run):
    assert run.rows["test_between"]["verdict"] == "undecided"
    assert f"undecided: test_it.py::test_between: {REASON}" in " ".join(run.summary)
    assert "4 estimated (1 within, 1 over, 1 undecided, 1 unset)" in " ".join(run.lines)


def test_it_neither_passes_nor_fails(run):
    assert "1 undecided" in run.lines[-1]
    assert "1 failed" in run.lines[-1]


def test_what_to_write_has_room_for_the_margin(run):
    assert "write gib=1.3" in " ".join(run.summary)


def test_it_fails_if_strict(session_of):
    run = session_of(FILES, *ASKED, "--membudget-strict")

    assert (run.rows["test_between"]["verdict"], run.rows["test_between"]["without_strict"]) == (
        "error",
        "undecided",
    )
    assert f"--membudget-strict: not checked: {REASON}" in run.message("test_between")
    details = run.rows["test_between"]["details"]
    assert "implementation: transformers, torchtitan or plain" in details


def test_the_lock_file_holds_what_has_no_limit(session_of):
    run = session_of(FILES, *ASKED, "--membudget-update")

    assert run.rows["test_bare"]["verdict"] == "within"
    assert run.rows["test_between"]["verdict"] == "undecided"
