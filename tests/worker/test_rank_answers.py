"""Which ranks of a test are asked, and one answer of theirs: every report, or the failure that came first."""

import itertools
import json
from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.caveats import DEPENDS, HOW, OTHER_OBJECTS, OTHER_RANKS, READ, Caveat
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.answer import TRACED, Answer, OtherRanks
from pytest_membudget.worker.ranks.rank_answers import Asking, RankEnd, answer_of_ranks, combined


def traced(rank):
    answer = Answer(TRACED, reports=(figure(rank, rank),), device="CUDA", properties=(("a", rank),))
    return RankEnd(rank, answer)


def raised(rank, outcome="error", **more):
    answer = Answer(outcome, f"trouble of {rank}\nand more", "calls", **more)
    return RankEnd(rank, answer, has_failed=True, output=f"output of {rank}")


def skipped(rank):
    return RankEnd(rank, Answer("skipped", "no flash attention"))


def figure(rank, size_bytes):
    return MemoryReport("traced", "allocated", {"allocated": size_bytes}, {}, rank=rank)


def hangs(rank, **more):
    return RankEnd(rank, None, has_failed=True, reason="it did not finish", **more)


DIED = RankEnd(1, None, has_failed=True, reason="its process left with status 3")
#: How the ranks ended, and what their answer has.
COMBINED = {
    "all reports, in their order": (
        [traced(1), traced(0)],
        {"outcome": "traced", "reports": (figure(0, 0), figure(1, 1)), "properties": (("a", 0),),
         "device": "CUDA"},
    ),
    "those that were ended because of it are not to blame": (
        [DIED, RankEnd(0, None)],
        {"reason": f"rank 1 of 2: {DIED.reason}", "details": "Rank 0 was ended because of it."},
    ),
    "of those that hang the one outside of a collective": (
        [hangs(0, waits=True), hangs(1)], {"failed_rank": 1}
    ),
    "out of memory keeps its place": (
        [traced(0), raised(1, "out_of_memory", where="test_x.py:7")],
        {"outcome": "out_of_memory", "where": "test_x.py:7", "reason": "rank 1 of 2: trouble of 1\nand more"},
    ),
    "all skip it": ([skipped(0), skipped(1)], {"outcome": "skipped", "reason": "no flash attention"}),
    "one skips it: nothing is checked": (
        [traced(0), skipped(1), traced(2)],
        {"outcome": "error", "reason": "of 3 ranks not all have skipped it, but these: 1"},
    ),
    "one without an answer never passes": (
        [traced(0), RankEnd(1, None, reason="nothing is known")], {"outcome": "error", "failed_rank": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMBINED)
def test_ranks_have_one_answer(name):
    ends, expected = COMBINED[name]
    answer = combined(ends)

    assert {key: getattr(answer, key) for key in expected} == expected


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


# Which ranks are asked

ALIKE = "ranks 1 to 6 are taken to be like rank 0"


class Ranks:
    """Stands for the ranks' runs: it notes who was asked."""

    def __init__(self, representatives=(), tried=(), sizes=None, host=None, **outcomes):
        self.asked = []
        self.varied = []
        self.told = {}
        caveats = (Caveat(HOW, ALIKE),)
        self._others = {"other_ranks": OtherRanks(tuple(representatives), tuple(tried), caveats)}
        self._sizes = sizes or {}
        self._host = host or {}
        self._outcomes = {int(name.removeprefix("rank_")): outcome for name, outcome in outcomes.items()}

    def __call__(self, rank, told, known=None):
        if known is not None:
            self.varied.append(rank)
            return known
        self.asked.append(rank)
        self.told[rank] = json.loads(told) if told else {}
        answer = Answer(
            TRACED,
            reports=(self._report(rank),),
            device="the stand-in",
            properties=(("rank", rank),),
            has_snapshot=rank != 5,
            **(self._others if rank == 0 else {}),
        )
        outcome = self._outcomes.get(rank, {})
        found = outcome(self.told[rank]) if callable(outcome) else outcome
        return replace(answer, has_exchanged=not found.keys().isdisjoint(("broadcasts", "unheard")), **found)

    def _report(self, rank):
        host_bytes = self._host.get(rank)
        host = figure(rank, host_bytes) if host_bytes is not None else None
        caveats = (Caveat(READ, "a value is read"),)
        return replace(figure(rank, self._sizes.get(rank, 10)), host=host, caveats=caveats)


def answer_of(budget, ranks, *, at_once=8, **more):
    return answer_of_ranks(budget, Asking(ranks, ranks, at_once=at_once, **more))


def assumptions_of(answer):
    return {report.rank: [*report.assumptions] for report in answer.reports}


def test_rank_0_decides_which_ranks_are_estimated_and_the_rest_are_taken_to_be_identical():
    ranks = Ranks(representatives=[7])

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7]
    assert answer.outcome == "traced"
    assert assumptions_of(answer) == {0: ["a value is read", ALIKE], 7: ["a value is read", ALIKE]}


def test_the_others_get_what_the_first_broadcasts():
    ranks = Ranks(representatives=[7], rank_0={"broadcasts": sent("it")})
    expected = {}

    answer_of(Budget(gib=1, gpus=8), ranks, expect=expected.update)

    assert ranks.told == {0: {}, 7: {"0": sent("it")}}
    assert {rank: json.loads(text) for rank, text in expected.items()} == {7: {"0": sent("it")}}


def sent(*values):
    """A rank's ``broadcasts``: one of each of ``values`` in the group of all."""
    return json.dumps([("all", [value]) for value in values])


def taking(*others, told, sends=(), guess="?", first=None):
    """What a rank answers that sends ``sends``, and then takes one value of each of ``others``."""
    lacks = tuple(one for one in others if str(one) not in told)
    sent_before = len(sends) if first is None else first
    taken = [(sent_before, one, "all", [guess] if one in lacks else None) for one in others]
    return {"unheard": lacks, "taken": json.dumps(taken), "broadcasts": sent(*sends)}


def unheard(*others, sends=()):
    return lambda told: taking(*others, told=told, sends=sends)


def test_a_rank_whose_values_are_needed_is_run_and_then_the_one_that_needs_them_again():
    ranks = Ranks([7], rank_7=unheard(6, sends=["seven"]), rank_6={"broadcasts": sent("six")})

    answer = answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 7, 6, 7]
    assert ranks.told[7] == {"0": "", "6": sent("six")}
    assert [report.rank for report in answer.reports] == [0, 7]  # rank 6 ran for what it sends alone


def test_who_was_asked_ahead_gets_what_was_announced_and_is_asked_again_if_that_is_not_enough():
    ranks = Ranks(representatives=[1, 2, 3], rank_1={"broadcasts": sent("one")}, rank_3=unheard(1))
    expected = {}

    answer_of(Budget(gib=1, gpus=4), ranks, expect=expected.update)

    assert [*expected] == [1, 2, 3]
    assert len({*expected.values()}) == 1
    assert ranks.asked == [0, 1, 2, 3, 3]
    assert "1" in ranks.told[3]
    assert "1" not in ranks.told[2]


def test_who_sends_something_else_when_it_has_more_is_run_for_again():
    ranks = Ranks(
        representatives=[1],
        rank_0=lambda told: taking(1, told=told, sends=[f"after {len(told)}"], first=0),
        rank_1=lambda told: taking(0, told=told, sends=["one"]),
    )

    answer_of(Budget(gib=1, gpus=2), ranks)

    assert ranks.asked == [0, 1, 0, 1]
    assert ranks.told[1] == {"0": sent("after 1")}


def test_who_got_what_is_no_longer_sent_runs_again_and_gets_what_it_then_needs():
    """Rank 2 answers rank 3, which then sends something else, with which rank 2 needs rank 5."""

    def rank_2(told):
        own = "answer" if "3" in told else "question"
        lacks = [one for one in (3, *(5,) * ("second" in told.get("3", ""))) if str(one) not in told]
        taken = [(place, 3, "all", ["?"] if 3 in lacks else None) for place in (0, 1)]
        taken += [(1, 5, "all", ["?"] if 5 in lacks else None)] * ("second" in told.get("3", ""))
        return {"unheard": tuple(lacks), "taken": json.dumps(taken), "broadcasts": sent(own)}

    def rank_3(told):
        more = ["second"] if "answer" in told.get("2", "") else []
        return taking(2, told=told, sends=["first", *more], first=1)

    ranks = Ranks([2, 3], rank_2=rank_2, rank_3=rank_3, rank_5={"broadcasts": sent("five")})

    answer_of(Budget(gib=1, gpus=8), ranks)

    assert ranks.asked == [0, 2, 3, 2, 3, 2, 5, 2]
    assert ranks.told[2] == {"0": "", "3": sent("first", "second"), "5": sent("five")}


def test_who_runs_for_others_alone_runs_at_once_and_not_again_if_it_gave_all_before_it_took_anything():
    lacking = {one: unheard(*{*range(1, 5)} - {one}, sends=[f"rank {one}"]) for one in range(1, 5)}
    ranks, once, expected = Ranks([4], **{f"rank_{one}": how for one, how in lacking.items()}), [], []

    def ask_once(rank, received):
        once.append(rank)
        return ranks(rank, received)

    asking = Asking(ranks, ask_once, expected.append, at_once=3)
    answer = answer_of_ranks(Budget(gib=1, gpus=5), asking)

    assert ranks.asked == [0, 4, 1, 2, 3, 4]
    assert once == [1, 2, 3]
    assert [[*one] for one in expected if one] == [[4], [1, 2, 3]]
    assert ranks.told[4] == {"0": "", **{str(rank): sent(f"rank {rank}") for rank in (1, 2, 3)}}
    assert [report.rank for report in answer.reports] == [0, 4]


@pytest.mark.parametrize(
    ("at_once", "asked"),
    [(2, [0, 5, 1, 2, 3, 4, 5]), (1, [0, 5, 1, 2, 3, 4, 5]), (8, [0, 5, 1, 2, 3, 4, 3, 5])],
)
def test_no_more_run_at_once_than_there_are_processes_so_that_the_next_have_what_these_send(at_once, asked):
    """All give something before they take anything; then the odd ranks take what the rank before sends."""

    def rank(own):
        others = [one for one in range(6) if one != own]

        def answer(told):
            lacks = [one for one in others if str(one) not in told]
            taken = [(1, one, "all", ["own"] if one in lacks else None) for one in others]
            if own % 2:
                taken.append((1, own - 1, "all", ["?"] if own - 1 in lacks else None))
            return {
                "unheard": tuple(lacks), "taken": json.dumps(taken), "broadcasts": sent("own", f"by {own}")
            }  # fmt: skip

        return answer

    ranks = Ranks([*range(1, 6)], **{f"rank_{own}": rank(own) for own in range(6)})

    answer_of(Budget(gib=1, gpus=6), ranks, at_once=at_once)

    assert ranks.asked == asked


def test_the_last_rank_that_already_runs_is_not_run_for_what_it_sends():
    alike = {f"rank_{rank}": gathering(rank, "a") for rank in range(4)}
    ranks, expected = Ranks(**alike), []

    answer_of(Budget(gib=1, gpus=4), ranks, expect=expected.append, ahead=(3,))

    assert ranks.asked == [0, 3, 1, 2]
    assert [{**one} for one in expected[:1]] == [{3: ""}]
    assert ranks.told[3] == {}


ERROR = {"outcome": "error", "reason": "ValueError in call", "details": "here", "raised": True}
OUT_OF_MEMORY = {"outcome": "out_of_memory", "reason": "tried to allocate", "where": "test.py:1"}
SKIPPED = {"outcome": "skipped", "reason": "no kernel"}
MET, FAILED = {"has_met": True}, {"outcome": "error", "failed_rank": 1}
#: GPUs, what the ranks answer, who is asked, what the answer has, and a part of its reason.
ANSWERS = {
    "nobody is asked twice": (8, {"representatives": [4, 0, 2, 4]}, [0, 2, 4], {}, ""),
    "a chain of needs is followed, and a circle ends": (
        4, {"representatives": [3], "rank_3": unheard(2), "rank_2": unheard(1), "rank_1": unheard(3)},
        [0, 3, 2, 1, 3], {}, "",
    ),
    "who fails without the values of others runs again with them": (
        2,
        {"rank_0": lambda told: unheard(1)(told) | ({} if told else ERROR), "rank_1": unheard(0, sends=[1])},
        [0, 1, 0], {"outcome": "traced"}, "",
    ),
    "nobody runs again for a rank that has no figure": (
        8, {"representatives": [7], "rank_7": unheard(6), "rank_6": ERROR},
        [0, 7, 6], {"reason": "rank 6 of 8: ValueError in call"}, "",
    ),
    "one meets nobody while others meet": (
        2, {"representatives": [1], "rank_0": MET}, [0, 1], FAILED, "rank 1 ended without taking part"
    ),
    "one holds nothing while others do": (
        2, {"representatives": [1], "sizes": {1: 0}}, [0, 1], FAILED, "rank 1 allocated nothing on cuda"
    ),
    "who raises is named, and the last to be asked": (
        8, {"representatives": [3, 5, 7], "rank_5": ERROR}, [0, 3, 5],
        {"outcome": "error", "reason": f"rank 5 of 8: {ERROR['reason']}", "failed_rank": 5, "raised": True,
         "where": ""}, "",
    ),
    "who runs out of memory is": (
        8, {"representatives": [3, 5, 7], "rank_5": OUT_OF_MEMORY}, [0, 3, 5],
        {"outcome": "out_of_memory", "reason": f"rank 5 of 8: {OUT_OF_MEMORY['reason']}", "failed_rank": 5,
         "raised": False, "where": "test.py:1"}, "",
    ),
    "rank 0 skips it": (
        8, {"representatives": [7], "rank_0": SKIPPED}, None,
        {"outcome": "skipped", "reason": "no kernel"}, "",
    ),
    "host memory without a budget of it makes no difference": (
        8, {"representatives": [7], "host": {0: 20, 7: 16}}, [0, 7], {}, ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_who_is_asked_and_what_comes_of_it(name):
    gpus, answers, asked, expected, said = ANSWERS[name]
    ranks = Ranks(**answers)

    answer = answer_of(Budget(gib=1, gpus=gpus), ranks)

    assert asked is None or ranks.asked == asked
    assert {key: getattr(answer, key) for key in expected} == expected
    assert said in (answer.reason or "")


def gathering(rank, *values, withholds=None, **more):
    """What a rank of four answers that gathers ``values`` one by one, and took its own for those of others.

    ``withholds``: the one that it does not say as long as it may rest on those.
    """
    others = [one for one in range(4) if one != rank]

    def answer(told):
        lacks = tuple(one for one in others if str(one) not in told)
        taken = [
            (place + 1, one, "all", [value] if one in lacks else None)
            for place, value in enumerate(values)
            for one in others
        ]
        said = [None if place == withholds and lacks else value for place, value in enumerate(values)]
        if withholds is not None and lacks:
            taken.insert(3 * withholds, (withholds, rank, "", [False]))
        return {"unheard": lacks, "taken": json.dumps(taken), "broadcasts": sent(*said), **more}

    return answer


@pytest.mark.parametrize(
    ("of_rank_1", "again"),
    [
        (gathering(1, "a", 3), []),
        (gathering(1, "a", 3, "more"), []),  # nobody asked it for more
        (gathering(1, "a", 4), [0]),  # all gave the second before they took another's
        (gathering(1, "a", None), [0]),
        (gathering(1, "a"), [0]),
        (gathering(1, "b", 3), [1, 2, 3, 0]),  # the second may follow from the first
        (gathering(1, "a", 3, withholds=1), [1]),
    ],
)
def test_who_took_the_right_values_for_those_of_others_is_not_run_again(of_rank_1, again):
    alike = {f"rank_{rank}": gathering(rank, "a", 3) for rank in range(4)}
    ranks = Ranks(**{**alike, "rank_1": of_rank_1})

    answer = answer_of(Budget(gib=1, gpus=4), ranks)

    assert ranks.asked == [0, 3, 1, 2, *again]  # the last first, as it differs most
    assert answer.outcome == "traced"


def test_who_gives_something_else_in_each_run_does_not_run_without_an_end():
    """As with process ids, gathered twice: nobody ever took what the others give then."""
    runs = itertools.count()
    random = {
        f"rank_{rank}": lambda told, rank=rank: gathering(rank, next(runs), 3)(told) for rank in range(4)
    }
    ranks = Ranks(representatives=[1, 2, 3], **random)

    answer = answer_of(Budget(gib=1, gpus=4), ranks)

    assert answer.outcome == "traced"
    assert max(ranks.asked.count(rank) for rank in range(4)) <= 5


@pytest.mark.parametrize("grows_by", [0, 1])
def test_a_figure_that_depends_on_what_is_different_in_each_run_is_named(grows_by):
    """As with process ids: who took what others send no more runs once more, with what they send now."""
    runs = itertools.count()

    def answer_of_rank(rank):
        def found(told):
            run = next(runs)
            return gathering(rank, run, 3)(told) | {"reports": (figure(rank, 10 + run * grows_by),)}

        return found

    ranks = Ranks([1, 2, 3], **{f"rank_{rank}": answer_of_rank(rank) for rank in range(4)})

    answer = answer_of(Budget(gib=1, gpus=4), ranks)

    found = {one.rank: [caveat.cause for caveat in one.caveats] for one in answer.reports}
    assert ({DEPENDS} <= {*itertools.chain(*found.values())}) == bool(grows_by), found
    if grows_by:
        assert max(one.peak_bytes for one in answer.reports) == 10 + next(runs) - 1


def test_a_rank_that_needs_one_more_each_time_gets_them_all():
    """Rank 0 asks the next rank as soon as it has the last one's number."""

    def rank_0(told):
        got = [one for one in range(1, 7) if str(one) in told]
        asked = [*got, *[len(got) + 1] * (len(got) < 6)]
        taken = [(0, one, "all", None if one in got else ["?"]) for one in asked]
        return {"unheard": (*asked[len(got) :],), "taken": json.dumps(taken), "broadcasts": ""}

    others = {f"rank_{rank}": {"broadcasts": sent(rank)} for rank in range(1, 7)}
    ranks = Ranks(rank_0=rank_0, **others)

    answer_of(Budget(gib=1, gpus=7), ranks)

    assert ranks.asked == [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]


def test_who_fails_with_the_right_values_fails():
    alike = {f"rank_{rank}": gathering(rank, "a", **(ERROR if rank == 1 else {})) for rank in range(4)}
    ranks = Ranks(**alike)

    answer = answer_of(Budget(gib=1, gpus=4), ranks)

    assert (ranks.asked, answer.outcome, answer.failed_rank) == ([0, 3, 1, 2], "error", 1)


def test_a_run_with_the_right_values_is_the_one_that_is_varied_and_that_of_the_next_meanwhile():
    alike = {f"rank_{rank}": gathering(rank, "a") for rank in range(4)}
    ranks, announced, got = Ranks(representatives=[2, 3], **alike), {}, {}

    def ask(rank, received, known=None):
        got[rank] = received, known
        return ranks(rank, received, known)

    asking = Asking(ask, ranks, expect_further=announced.update, at_once=8)
    answer_of_ranks(Budget(gib=1, gpus=4), asking)

    assert ranks.asked == [0, 3, 1, 2]
    assert ranks.varied == [0, 2, 3]
    assert announced == {rank: got[rank] for rank in (2, 3)}, "as it is asked, before the first is varied"


def test_what_is_recorded_and_shown_comes_from_one_of_them():
    sizes = {0: 10, 3: 30, 5: 40}  # rank 5 has left no snapshot
    answer = answer_of(Budget(gib=1, gpus=8), Ranks(representatives=[3, 5], sizes=sizes))

    assert answer.properties == (("rank", 0),)
    assert answer.has_snapshot
    assert answer.snapshot_rank == 3


@pytest.mark.parametrize(
    ("sizes", "cause", "said"),
    [
        ({0: 30, 7: 10, 8: 30}, HOW, ""),  # as the first and the last
        ({0: 10, 7: 30, 8: 10, 3: 30}, HOW, ""),  # as one that has another reason to run
        ({0: 30, 7: 20, 8: 20}, HOW, ""),  # as each other: those between the ends
        ({0: 30, 7: 20, 8: 10}, OTHER_RANKS, ", but rank 7 takes 20 B, which none of the others does"),
    ],
)
def test_that_others_take_no_more_is_checked_where_those_that_were_tried_do_as_the_rest(sizes, cause, said):
    ranks = Ranks(representatives=[3, 7, 8, 15], tried=[7, 8], sizes={3: 10, 15: 10, **sizes})

    answer = answer_of(Budget(gib=1, gpus=16), ranks)

    assert {report.caveats[-1] for report in answer.reports} == {Caveat(cause, ALIKE + said)}


GUESSED = Caveat(
    OTHER_OBJECTS, "t.py:1 gathers objects of other ranks, which are taken to be this rank's own"
)


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({0: "1.0", 7: "1.0", 15: "1.0"}, HOW),
        ({0: "1.0", 7: "1.0", 15: "2.0"}, OTHER_OBJECTS),
        ({0: "1.0", 7: "1.0", 15: None}, OTHER_OBJECTS),  # what cannot be handed on
        ({0: None, 7: None, 15: None}, OTHER_OBJECTS),
        ({0: "1.0", 7: "1.0"}, OTHER_OBJECTS),  # one does not gather
        ({}, OTHER_OBJECTS),  # what none can hand on is not sent
    ],
)
def test_what_other_ranks_gather_is_guessed_where_those_that_ran_do_not_gather_the_same(given, cause):
    def outcome(rank):
        gathered = {"broadcasts": json.dumps([["all gathered", [given[rank]]]])} if rank in given else {}
        return {"reports": (replace(figure(rank, 10), caveats=(GUESSED,)),), **gathered}

    ranks = Ranks(representatives=[7, 15], **{f"rank_{rank}": outcome(rank) for rank in (0, 7, 15)})

    answer = answer_of(Budget(gib=1, gpus=16), ranks)

    assert {report.caveats[0].cause for report in answer.reports} == {cause}


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
