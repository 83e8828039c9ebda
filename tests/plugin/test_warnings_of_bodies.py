"""Warnings of a test's body: pytest's summary has them as if it had run there."""

import pytest

BODIES = """
    import warnings

    import pytest
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class DataWarning(RuntimeWarning):
        def __init__(self, missing, *, of):
            super().__init__(f"{missing} of {of} are missing")

    @pytest.mark.mem_budget(gib=1)
    def test_warns():
        warnings.warn(DataWarning(3, of=7))
        for _ in range(2):
            checkpoint(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"), use_reentrant=True)

    @pytest.mark.mem_budget(gib=1, gpus=2)
    def test_of_ranks():
        warnings.warn("every rank says so")
        torch.ones(1, device="cuda")

    @pytest.mark.mem_budget(gib=1)
    @pytest.mark.filterwarnings("ignore:nobody")
    def test_says_nothing():
        warnings.warn("nobody wants to know")
        model = nn.Linear(64, 64).cuda()
        model(torch.randn(8, 64, device="cuda")).sum().backward()

    @pytest.mark.mem_budget(gib=1)
    @pytest.mark.filterwarnings("error")
    def test_must_not_warn():
        warnings.warn("a mistake")
"""
CHECKPOINT = "None of the inputs have requires_grad=True. Gradients will be None"


def summary_of(run):
    """The lines of pytest's summary of warnings."""
    starts = [n for n, line in enumerate(run.lines) if " warnings summary " in line]
    ends = [n for n, line in enumerate(run.lines) if line.startswith("-- Docs:")]
    return run.lines[starts[0] : ends[0]] if starts else []


@pytest.fixture(scope="module")
def first(session_of):
    """``test_warnings.py`` in a session whose estimates the next one finds."""
    return session_of({"test_warnings.py": BODIES}, "--membudget", "test_warnings.py")


def test_the_summary_has_each_with_its_place(first):
    lines = summary_of(first)
    at = next(n for n, line in enumerate(lines) if line.endswith("DataWarning: 3 of 7 are missing"))

    assert lines[at - 1] == "test_warnings.py::test_warns"
    assert lines[at].strip().startswith(f"{first.folder / 'test_warnings.py'}:14: ")
    assert lines[at + 1].strip() == "warnings.warn(DataWarning(3, of=7))"
    assert sum(CHECKPOINT in line for line in lines) == 1  # as Python shows one that repeats
    assert sum("UserWarning: every rank says so" in line for line in lines) == 1
    assert first.lines[-1].endswith("3 warnings in " + first.lines[-1].rsplit(" in ")[-1])


def test_filters_and_errors_are_the_tests_own(first):
    text = "\n".join(summary_of(first))

    assert "nobody" not in text
    assert first.outcomes["test_says_nothing"] == "passed"
    assert "UserWarning: a mistake" in first.text("test_must_not_warn")


def test_kept_estimates_have_theirs_and_so_have_those_of_xdist(first, again):
    pytest.importorskip("xdist")

    assert summary_of(again(first, "--membudget", "test_warnings.py", "-n2")) == summary_of(first) != []
