"""One answer of all ranks' answers: every report, or the failure that came first."""

import pytest

from pytest_membudget.worker.ranks.rank_answers import DIED, ENDED, HUNG, RAISED, RankEnd, combined


def traced(rank):
    report = {"rank": rank, "peak": rank}
    return RankEnd(
        rank, {"outcome": "traced", "report": report, "device": "CUDA", "properties": [["a", rank]]}
    )


def raised(rank, number, outcome="error", **more):
    answer = {"outcome": outcome, "reason": f"trouble of {rank}\nand more", "details": "calls", **more}
    return RankEnd(rank, answer, failure=RAISED, number=number, output=f"output of {rank}")


def skipped(rank):
    return RankEnd(rank, {"outcome": "skipped", "reason": "no flash attention", "report": None})


def test_all_ranks_reports_are_there_in_their_order():
    answer = combined([traced(1), traced(0)])

    assert answer["outcome"] == "traced"
    assert answer["reports"] == [{"rank": 0, "peak": 0}, {"rank": 1, "peak": 1}]
    assert answer["properties"] == [["a", 0]]
    assert answer["device"] == "CUDA"


def test_the_failure_that_came_first_is_the_one_to_report():
    answer = combined([raised(0, 2), raised(1, 1), traced(2)])

    assert answer["failed_rank"] == 1
    assert answer["reason"] == "rank 1 of 3: trouble of 1\nand more"
    assert answer["details"].splitlines() == [
        "calls",
        "The last lines of rank 1:",
        "output of 1",
        "Rank 0 failed too: trouble of 0",
        "Rank 2 had finished.",
    ]


def test_those_that_were_ended_because_of_it_are_not_to_blame():
    died = RankEnd(1, None, failure=DIED, number=1, reason="its process left with status 3")

    answer = combined([RankEnd(0, None, failure=ENDED), died])

    assert answer["reason"] == "rank 1 of 2: its process left with status 3"
    assert answer["details"] == "Rank 0 was ended because of it."


def test_of_those_that_hang_the_one_outside_of_a_collective_is_named():
    waits = RankEnd(0, None, failure=HUNG, number=1, waits=True, reason="it did not finish")
    sleeps = RankEnd(1, None, failure=HUNG, number=2, reason="it did not finish")

    assert combined([waits, sleeps])["failed_rank"] == 1


def test_out_of_memory_keeps_its_place():
    answer = combined([traced(0), raised(1, 1, "out_of_memory", where="test_x.py:7")])

    assert (answer["outcome"], answer["where"]) == ("out_of_memory", "test_x.py:7")
    assert answer["reason"].startswith("rank 1 of 2: trouble of 1")


def test_a_test_that_all_ranks_skip_is_skipped():
    answer = combined([skipped(0), skipped(1)])

    assert (answer["outcome"], answer["reason"]) == ("skipped", "no flash attention")


def test_a_test_that_one_rank_skips_has_checked_nothing():
    answer = combined([traced(0), skipped(1), traced(2)])

    assert answer["outcome"] == "error"
    assert answer["reason"] == "of 3 ranks not all have skipped it, but these: 1"


@pytest.mark.parametrize("failure", [ENDED, None])
def test_a_rank_without_an_answer_never_passes(failure):
    silent = RankEnd(1, None, failure=failure, reason="nothing is known")

    answer = combined([traced(0), silent])

    assert (answer["outcome"], answer["failed_rank"]) == ("error", 1)
