"""Which rank failed first, by what each has sent and whether its process is there."""

from types import SimpleNamespace

import pytest

from pytest_membudget.results.answer import Answer
from pytest_membudget.worker.ranks import launch_ranks
from pytest_membudget.worker.ranks.launch_ranks import ends_of
from pytest_membudget.worker.time_limit import Overrun


def rank(number, outcome=None, failed_at=None, exit_code=None, overrun=None):
    """A rank that has begun: it has answered with ``outcome``, has ended with ``exit_code``, or runs."""
    return SimpleNamespace(
        rank=number,
        stack_file=None,
        has_begun=True,
        watch=SimpleNamespace(look=lambda: overrun),
        process=SimpleNamespace(pid=1, returncode=exit_code),
        answer=outcome and Answer(outcome, "it raised", failed_at=failed_at),
        receive=lambda: None,
        has_died=lambda: outcome is None and exit_code is not None,
        output=SimpleNamespace(last_lines=lambda: f"line of {number}"),
    )


def failures(*ranks):
    """What failed first, and what then; after them those that have not failed."""
    return [(one.rank, one.has_failed, one.reason) for one in ends_of(ranks)]


def test_a_rank_that_died_is_named_and_not_the_one_that_raised_because_of_it():
    found = failures(rank(0, "error", 1.0), rank(1, exit_code=1), rank(2))

    assert found == [
        (1, True, "its process left with status 1 before its test did"),
        (0, False, ""),
        (2, False, ""),
    ]


def test_of_two_that_raised_the_earlier_comes_first():
    assert failures(rank(0, "error", 2.0), rank(1, "error", 1.0)) == [(1, True, ""), (0, True, "")]


def test_ranks_that_have_answered_and_left_have_not_failed():
    assert failures(rank(0, "traced", exit_code=0), rank(1, "traced")) == [(0, False, ""), (1, False, "")]


def test_only_those_that_have_not_answered_hang(monkeypatch):
    monkeypatch.setattr(launch_ranks, "stacks_of", lambda processes: ["" for _ in processes])
    silent, late, answered = failures(rank(0, "traced"), rank(1), rank(2, overrun=Overrun(5, 5)))

    assert answered == (0, False, "")
    assert [silent[:2], late[:2]] == [(1, True), (2, True)]
    assert silent[2].startswith("it did not finish within 5 s")


@pytest.mark.parametrize("end", [rank(1, "error", 1.0), rank(1, exit_code=1)])
def test_a_failure_has_the_last_lines_of_its_rank(end):
    assert ends_of([rank(0), end])[0].output == "line of 1"
