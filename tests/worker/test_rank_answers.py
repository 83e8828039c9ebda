"""Which ranks of a test are asked, and one answer of theirs: every report, or the failure that came first."""

import json
from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.caveats import HOW, READ, Caveat
from pytest_membudget.memory_report import MemoryReport, PeakBytes
from pytest_membudget.results.answer import TRACED, Answer
from pytest_membudget.worker.ranks.rank_answers import RankEnd, answer_of_ranks, combined


def traced(rank):
    answer = Answer(TRACED, reports=(figure(rank, rank),), device="CUDA", properties=(("a", rank),))
    return RankEnd(rank, answer)


def raised(rank, outcome="error", **more):
    answer = Answer(outcome, f"trouble of {rank}\nand more", "calls", **more)
    return RankEnd(rank, answer, has_failed=True, output=f"output of {rank}")


def skipped(rank):
    return RankEnd(rank, Answer("skipped", "no flash attention"))


def test_all_ranks_reports_are_there_in_their_order():
    answer = combined([traced(1), traced(0)])

    assert answer.outcome == "traced"
    assert answer.reports == (figure(0, 0), figure(1, 1))
    assert answer.properties == (("a", 0),)
    assert answer.device == "CUDA"


def test_the_failure_that_came_first_is_the_one_to_report():
    answer = combined([raised(1), raised(0), traced(2)])

    assert answer.failed_rank == 1
    assert answer.reason == "rank 1 of 3: trouble of 1\nand more"
    assert answer.details.splitlines() == [
        "calls",
        "The last lines of rank 1:",
        "output of 1",
        "Rank 0 failed too: trouble of 0",
        "Rank 2 had finished.",
    ]


def test_those_that_were_ended_because_of_it_are_not_to_blame():
    died = RankEnd(1, None, has_failed=True, reason="its process left with status 3")

    answer = combined([died, RankEnd(0, None)])

    assert answer.reason == "rank 1 of 2: its process left with status 3"
    assert answer.details == "Rank 0 was ended because of it."


def test_of_those_that_hang_the_one_outside_of_a_collective_is_named():
    waits = RankEnd(0, None, has_failed=True, waits=True, reason="it did not finish")
    sleeps = RankEnd(1, None, has_failed=True, reason="it did not finish")

    assert combined([waits, sleeps]).failed_rank == 1


def test_out_of_memory_keeps_its_place():
    answer = combined([traced(0), raised(1, "out_of_memory", where="test_x.py:7")])

    assert (answer.outcome, answer.where) == ("out_of_memory", "test_x.py:7")
    assert answer.reason.startswith("rank 1 of 2: trouble of 1")


def test_a_test_that_all_ranks_skip_is_skipped():
    answer = combined([skipped(0), skipped(1)])

    assert (answer.outcome, answer.reason) == ("skipped", "no flash attention")


def test_a_test_that_one_rank_skips_has_checked_nothing():
    answer = combined([traced(0), skipped(1), traced(2)])

    assert answer.outcome == "error"
    assert answer.reason == "of 3 ranks not all have skipped it, but these: 1"


def test_a_rank_without_an_answer_never_passes():
    answer = combined([traced(0), RankEnd(1, None, reason="nothing is known")])

    assert (answer.outcome, answer.failed_rank) == ("error", 1)


# Which ranks are asked

ALIKE = "ranks 1 to 6 are taken to be like rank 0"


class Ranks:
    """Stands for the ranks' runs: it notes who was asked."""

    def __init__(self, representatives=(), assumption=ALIKE, sizes=None, host=None, **outcomes):
        self.asked = []
        self.told = {}
        self._identical_ranks = {
            "representatives": tuple(representatives),
            "rank_caveats": (Caveat(HOW, assumption),) if assumption else (),
        }
        self._sizes = sizes or {}
        self._host = host or {}
        self._outcomes = {int(name.removeprefix("rank_")): outcome for name, outcome in outcomes.items()}

    def __call__(self, rank, told):
        self.asked.append(rank)
        self.told[rank] = json.loads(told) if told else {}
        answer = Answer(
            TRACED,
            reports=(self._report(rank),),
            device="the stand-in",
            properties=(("rank", rank),),
            has_snapshot=rank != 5,
            **(self._identical_ranks if rank == 0 else {}),
        )
        outcome = self._outcomes.get(rank, {})
        found = outcome(self.told[rank]) if callable(outcome) else outcome
        return replace(answer, has_exchanged=not found.keys().isdisjoint(("broadcasts", "unheard")), **found)

    def _report(self, rank):
        host_bytes = self._host.get(rank)
        host = figure(rank, host_bytes) if host_bytes is not None else None
        caveats = (Caveat(READ, "a value is read"),)
        return replace(figure(rank, self._sizes.get(rank, 10)), host=host, caveats=caveats)


def figure(rank, size_bytes):
    return MemoryReport("traced", "allocated", PeakBytes(size_bytes, 0, 0, 0), {}, rank=rank)


def answer_of(budget, ranks):
    return answer_of_ranks(budget, ranks, ranks, lambda told: None)


def assumptions_of(answer):
    return {report.rank: [*report.assumptions] for report in answer.reports}


def test_rank_0_decides_which_ranks_are_estimated_and_the_rest_are_taken_to_be_identical():
    ranks = Ranks(representatives=[7])

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7]
    assert answer.outcome == "traced"
    assert assumptions_of(answer) == {0: ["a value is read", ALIKE], 7: ["a value is read", ALIKE]}


def test_nobody_is_asked_twice():
    ranks = Ranks(representatives=[4, 0, 2, 4])

    answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 2, 4]


def test_the_others_get_what_the_first_broadcasts():
    ranks = Ranks(representatives=[7], rank_0={"broadcasts": "sent"})
    expected = {}

    answer_of_ranks(Budget(gib=1, gpus=8), ranks, ranks, expected.update)

    assert ranks.told == {0: {}, 7: {"0": "sent"}}
    assert {rank: json.loads(text) for rank, text in expected.items()} == {7: {"0": "sent"}}


def unheard(*others, **sent):
    """What a rank answers that needs the values of ``others``, until it is told them."""
    return lambda told: {"unheard": tuple(one for one in others if str(one) not in told), **sent}


def test_a_rank_whose_values_are_needed_is_run_and_then_the_one_that_needs_them_again():
    ranks = Ranks([7], rank_7=unheard(6, broadcasts="seven"), rank_6={"broadcasts": "six"})

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7, 6, 7]
    assert ranks.told[7] == {"0": "", "6": "six"}
    assert [report.rank for report in answer.reports] == [0, 7]  # rank 6 ran for what it sends alone


def test_a_chain_of_needs_is_followed_and_a_circle_ends():
    ranks = Ranks([3], rank_3=unheard(2), rank_2=unheard(1), rank_1=unheard(3))

    answer_of(Budget(gib=1, gpus=4), ranks)

    assert ranks.asked == [0, 3, 2, 1, 2, 3]


def test_who_was_asked_ahead_gets_what_was_announced_and_is_asked_again_if_that_is_not_enough():
    ranks = Ranks(representatives=[1, 2, 3], rank_1={"broadcasts": "one"}, rank_3=unheard(1))
    expected = {}

    answer_of_ranks(Budget(gib=1, gpus=4), ranks, ranks, expected.update)

    assert [*expected] == [1, 2, 3]
    assert len({*expected.values()}) == 1
    assert ranks.asked == [0, 1, 2, 3, 3]
    assert "1" in ranks.told[3]
    assert "1" not in ranks.told[2]


def test_who_sends_something_else_when_it_has_more_is_run_for_again():
    ranks = Ranks(
        representatives=[1],
        rank_0=lambda told: {"unheard": () if told else (1,), "broadcasts": f"after {len(told)}"},
        rank_1={"broadcasts": "one"},
    )

    answer_of(Budget(gib=1, gpus=2), ranks)

    assert ranks.asked == [0, 1, 0, 1]
    assert ranks.told[1] == {"0": "after 1"}


def test_who_got_what_is_no_longer_sent_runs_again_and_gets_what_it_then_needs():
    """Rank 2 answers rank 3, which then sends something else, with which rank 2 needs rank 5."""

    def rank_2(told):
        lacks = {None: (3,), "first": (), "second": () if "5" in told else (5,)}[told.get("3")]
        return {"unheard": lacks, "broadcasts": "answer" if "3" in told else "question"}

    def rank_3(told):
        return {**unheard(2)(told), "broadcasts": "second" if told.get("2") == "answer" else "first"}

    ranks = Ranks(
        [2, 3],
        rank_2=rank_2,
        rank_3=rank_3,
        rank_5={"broadcasts": "five"},
    )

    answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 2, 3, 2, 3, 3, 2, 5, 2]  # rank 3 was asked ahead, and lacked rank 2
    assert ranks.told[2] == {"0": "", "3": "second", "5": "five"}


def test_who_runs_for_others_alone_runs_at_once_and_again_where_it_lacked_values_of_them():
    lacking = {one: unheard(*{*range(1, 5)} - {one}, broadcasts=f"rank {one}") for one in range(1, 5)}
    ranks, once, expected = Ranks([4], **{f"rank_{one}": how for one, how in lacking.items()}), [], []

    def ask_once(rank, received):
        once.append(rank)
        return ranks(rank, received)

    answer = answer_of_ranks(Budget(gib=1, gpus=5), ranks, ask_once, expected.append)

    assert ranks.asked == [0, 4, 1, 2, 3, 1, 2, 3, 4]
    assert once == [1, 2, 3, 1, 2, 3]
    assert [[*one] for one in expected if one] == [[4], [1, 2, 3], [1, 2, 3]]
    assert ranks.told[4] == {"0": "", "1": "rank 1", "2": "rank 2", "3": "rank 3"}
    assert [report.rank for report in answer.reports] == [0, 4]


def sent(*values):
    """A rank's ``broadcasts``: one of each of ``values`` in the group of all."""
    return json.dumps([("all", [value]) for value in values])


def assuming(rank, *values):
    """What a rank answers that sends ``values``, and took the same for what the other three send."""
    others = {*range(4)} - {rank}

    def answer(told):
        lacks = tuple(one for one in others if str(one) not in told)
        assumed = json.dumps({one: [("all", [value]) for value in values] for one in lacks})
        return {"unheard": lacks, "assumed": assumed, "broadcasts": sent(*values)}

    return answer


@pytest.mark.parametrize(
    ("of_rank_1", "again"),
    [
        (assuming(1, "a", 3), []),
        (assuming(1, "a", 3, "more"), [1]),  # nobody asked it for more, and it gets none
        (assuming(1, "a", 4), [1, 2, 3]),
        (assuming(1, "a", None), [2, 3]),  # where nothing is assumed anything may come
        (assuming(1, "a"), [2, 3]),
        (lambda told: assuming(1, "a", 3)(told) | {"assumed": ""}, [1]),
        (lambda told: assuming(1, "a", 3)(told) | ({} if "2" in told else ERROR), [1]),
    ],
)
def test_who_took_the_right_values_for_those_of_others_is_not_run_for_them_again(of_rank_1, again):
    alike = {f"rank_{rank}": assuming(rank, "a", 3) for rank in range(4)}
    ranks = Ranks(**{**alike, "rank_1": of_rank_1})

    answer = answer_of(Budget(gib=1, gpus=4), ranks)

    assert ranks.asked == [0, 1, 2, 3, *again, 0]
    assert answer.outcome == "traced"


def test_one_that_fails_without_the_values_of_others_runs_again_with_them():
    failing = lambda told: {**ERROR, "unheard": (1,)} if not told else {}  # noqa: E731
    ranks = Ranks(rank_0=failing, rank_1={"broadcasts": "one"})

    answer = answer_of(Budget(gib=1, gpus=2), ranks)

    assert ranks.asked == [0, 1, 0]
    assert answer.outcome == "traced"


def test_nobody_is_run_again_for_a_rank_that_has_no_figure():
    ranks = Ranks([7], rank_7=unheard(6), rank_6=ERROR)

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7, 6]
    assert answer.reason == "rank 6 of 8: ValueError in call"


def test_a_rank_that_meets_nobody_while_others_meet_fails():
    ranks = Ranks(representatives=[1], rank_0={"has_met": True})

    answer = answer_of(Budget(gib=1, gpus=2), ranks)

    assert (answer.outcome, answer.failed_rank) == ("error", 1)
    assert "rank 1 ended without taking part" in answer.reason


def test_a_rank_that_holds_nothing_while_others_do_fails():
    answer = answer_of(Budget(gib=1, gpus=2), Ranks(representatives=[1], sizes={1: 0}))

    assert (answer.outcome, answer.failed_rank) == ("error", 1)
    assert "rank 1 allocated nothing on cuda" in answer.reason


def test_no_assumption_is_no_line():
    answer = answer_of(Budget(gib=1, gpus=2), Ranks(representatives=[1], assumption=""))

    assert assumptions_of(answer)[1] == ["a value is read"]


def test_what_is_recorded_and_shown_comes_from_one_of_them():
    sizes = {0: 10, 3: 30, 5: 40}  # rank 5 has left no snapshot
    answer = answer_of(Budget(gib=1, gpus=8), Ranks(representatives=[3, 5], sizes=sizes))

    assert answer.properties == (("rank", 0),)
    assert answer.has_snapshot
    assert answer.snapshot_rank == 3


ERROR = {"outcome": "error", "reason": "ValueError in call", "details": "here", "raised": True}
OUT_OF_MEMORY = {"outcome": "out_of_memory", "reason": "tried to allocate", "where": "test.py:1"}


@pytest.mark.parametrize("trouble", [ERROR, OUT_OF_MEMORY], ids=["error", "out of memory"])
def test_a_rank_that_gives_no_figure_is_named_and_the_last_to_be_asked(trouble):
    ranks = Ranks(representatives=[3, 5, 7], rank_5=trouble)

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 3, 5]
    assert answer.outcome == trouble["outcome"]
    assert answer.reason == f"rank 5 of 8: {trouble['reason']}"
    assert answer.failed_rank == 5
    assert answer.raised == trouble.get("raised", False)
    assert answer.where == trouble.get("where", "")


def test_a_test_that_rank_0_skips_is_skipped():
    ranks = Ranks(representatives=[7], rank_0={"outcome": "skipped", "reason": "no kernel"})

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert (answer.outcome, answer.reason) == ("skipped", "no kernel")


def test_a_test_that_only_some_ranks_skip_is_an_error():
    ranks = Ranks(representatives=[7], rank_7={"outcome": "skipped", "reason": "no kernel"})

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert answer.outcome == "error"
    assert answer.reason == "of 8 ranks not all have skipped it, but these: 7"


# Host memory of a machine


def test_where_all_that_are_asked_hold_the_same_the_others_need_not_be_asked():
    ranks = Ranks(representatives=[7], host={0: 20, 7: 20})

    answer = answer_of(Budget(gib=1, gpus=8, host_gib=1), ranks)

    assert ranks.asked == [0, 7]
    assert assumptions_of(answer)[0][-1] == ALIKE


def test_where_they_differ_all_ranks_of_the_machine_are_asked_and_nothing_is_assumed():
    ranks = Ranks(representatives=[7], host={0: 20, 7: 16})

    answer = answer_of(Budget(gib=1, gpus=8, host_gib=1), ranks)

    assert ranks.asked == [0, 7, 1, 2, 3, 4, 5, 6]
    assert [report.rank for report in answer.reports] == list(range(8))
    assert assumptions_of(answer)[0] == ["a value is read"]


def test_of_several_machines_the_bound_is_reported():
    ranks = Ranks(representatives=[15], host={0: 20})

    answer = answer_of(Budget(gib=1, gpus=16, host_gib=1), ranks)

    assert ranks.asked == [0, 15]
    alike, told = assumptions_of(answer)[15][1:]
    assert alike == ALIKE
    assert told.startswith("in the sum of a machine's host memory, ranks without an estimate count")


def test_without_a_budget_of_host_memory_it_makes_no_difference():
    ranks = Ranks(representatives=[7], host={0: 20, 7: 16})

    answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7]
