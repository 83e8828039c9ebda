"""A figure with a margin, and a budget between the two: neither passed nor failed; a failure if strict."""

from tests.gate.given import ALONE, ASKED, given_files

TWO = "mem_budget(gib=2)"
FILES = given_files({
    "test_within": ("takes(1, margin=0.25)", TWO),
    "test_between": ("takes(1.75, margin=0.25)", TWO),
    "test_over": ("takes(3, margin=0.25)", TWO),
    "test_bare": ("takes(1, margin=0.25)", "mem_budget()"),
})  # fmt: skip
ARGS, ENV = ASKED, ALONE
REASON = "allocated 1.75 GiB, up to 2.19 GiB with its margin of 25%: its budget of 2.00 GiB is between"


def test_it_is_counted_and_said(run):
    assert run.rows["test_between"]["verdict"] == "undecided"
    assert f"undecided: test_budgets.py::test_between: {REASON}" in " ".join(run.summary)
    assert "4 estimated (1 within, 1 over, 1 undecided, 1 unset)" in " ".join(run.lines)


def test_it_neither_passes_nor_fails(run):
    assert "1 undecided" in run.lines[-1]
    assert "1 failed" in run.lines[-1]


def test_what_to_write_has_room_for_the_margin(run):
    assert "write gib=1.3" in " ".join(run.summary)


def test_it_fails_if_strict(session_of):
    run = session_of(FILES, *ASKED, "--membudget-strict", env=ALONE)

    assert (run.rows["test_between"]["verdict"], run.rows["test_between"]["without_strict"]) == (
        "error",
        "undecided",
    )
    assert f"--membudget-strict: not checked: {REASON}" in run.message("test_between")
    details = run.rows["test_between"]["details"]
    assert "implementation: transformers, torchtitan or plain" in details


def test_the_lock_file_holds_what_has_no_limit(session_of):
    run = session_of(FILES, *ASKED, "--membudget-update", env=ALONE)

    assert run.rows["test_bare"]["verdict"] == "within"
    assert run.rows["test_between"]["verdict"] == "undecided"
