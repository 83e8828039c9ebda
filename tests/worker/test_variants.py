"""Which runs of a test are asked for, and what is said of their figures; the answers are given."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.verdict import OUT_OF_MEMORY
from pytest_membudget.caveats import (
    COLLECTED,
    COMPONENT_DEPENDS,
    DEPENDS,
    HELD_DEPENDS,
    HOST_DEPENDS,
    HOW,
    METRIC_DEPENDS,
    PROCESS,
    READ,
    SIZE_READ,
    WORST_CASE,
    Caveat,
)
from pytest_membudget.components import METRICS
from pytest_membudget.memory_report import HeldMemory, MemoryReport
from pytest_membudget.results.answer import Answer, Request
from pytest_membudget.results.varied import (
    ALL_TRUTHS,
    BOUNDS,
    CARD_DRAWS,
    CHOICES,
    ENDLESS,
    EVERYWHERE,
    GARBAGE,
    LATE_WATCHDOG,
    LOOPS,
    NOWHERE,
    ODD_NUMBERS,
    TURNED,
    WAITING,
    WATCHDOG,
)
from pytest_membudget.worker.client.variants import ask_with_variants

MIB = 2**20
REQUEST = Request("k", "a.py", "H100-80GB", False, "allocated", "snapshot.pickle")
LOSS = Caveat(READ, "a.py:1 reads a float32 value (once): taken to be 1.0")
WHOLE = Caveat(SIZE_READ, "a.py:3 reads an int64 value (once): taken to be 1")
MASK = Caveat(WORST_CASE, "a.py:2 takes sizes from unknown data (once): taken to be all")
FIRST_ROWS = Caveat(WORST_CASE, "a.py:2 chooses 1 of 8: taken to be the first in all rows: the worst case")
METHOD = Caveat(HOW, "compiled")


def traced(mib, *caveats, unknown=("data",), **more):
    size = mib * MIB
    report = MemoryReport(
        "traced",
        "allocated",
        dict.fromkeys(METRICS, size),
        {"inputs": size},
        caveats=caveats,
        seconds=0.5,
    )
    return Answer("traced", reports=(report,), unknown=unknown, **{"allocations": f"{mib} MiB", **more})


def raised(mib, last_read="a.py:1"):
    answer = traced(mib)
    return replace(answer, outcome="error", reason="ValueError", raised=True, last_read=last_read)


def by_truths(*more, pairs=((6, 1), (8, 1))):
    """Requests, and the sizes of their runs: by the truths that they have, and ``more`` in the second."""
    sizes = [((6, 1),), ((8, 1), *more), (), ((6, 1),), *((one,) for one in pairs)]
    requests = [(0, ()), (1, ()), (2, ()), (3, ()), (1, (ALL_TRUTHS,)), (2, (NOWHERE,))]
    return dict(zip(requests, sizes, strict=True))


class Asked:
    """Gives each variant its answer, and keeps what was asked for: figures, and then all of a run."""

    def __init__(self, *answers):
        self._answers = answers
        self.requests = []
        self.again = []

    def __call__(self, request):
        is_again = replace(request, figures_only=True) in self.requests
        (self.again if is_again else self.requests).append(request)
        return self._answers[request.variant if request.steady != ("*",) else -1]


def told(*answers):
    """The answer, as MiB and kinds of caveats, and the requests."""
    asked = Asked(*answers)
    answer = ask_with_variants(asked, REQUEST)
    report = answer.report
    return report.peak_bytes // MIB, [one.cause for one in report.caveats], asked.requests


def of_sizes(sizes, *caveats, other):
    """Runs that have two other ends of what nobody knows."""
    return [traced(size, *caveats, unknown=("data", other)) for size in sizes]


def of_draws(upper):
    """Runs of a test with draws of the card, of which one is at the ``upper`` end, and sizes of masks."""
    drew = {"unknown": ("data", BOUNDS, CARD_DRAWS)}
    sizes = (9, 9, 4, 4, None, None, None, upper)
    return [size and traced(size, LOSS, MASK, **drew) for size in sizes]


def of_seeds(other):
    """Runs of a test that reads, and draws on the host; ``other``: what it takes with other draws alone."""
    drew = {"unknown": ("data", "random numbers that the host draws (torch)")}
    return [one and traced(one, LOSS, **drew) for one in (4, 9, None, None, None, None, other)]


def with_options(*sizes, caveats=(MASK,), read=("data",)):
    """Runs with sizes of masks; one in which no row chooses but the first options takes 10 MiB."""
    runs = [traced(size, *caveats, unknown=(*read, BOUNDS, CHOICES)) for size in sizes]
    return [*runs, *[None] * (8 - len(runs)), traced(10, FIRST_ROWS)]


def with_buckets(*sizes, what=LOSS, read=("data", "numbers")):
    """Runs of a test with a DistributedDataParallel that has made its buckets anew."""
    caveats = (what, METHOD) if read else (METHOD,)
    return [traced(size, *caveats, unknown=(*read, WATCHDOG)) for size in sizes]


def with_garbage(first, kept=None, other=None, *, what=None):
    """Runs of a test whose reference cycles hold memory."""
    caveats, unknown = ((what, METHOD), ("data", GARBAGE)) if what else ((METHOD,), (GARBAGE,))
    runs = [first, other, None, None, None, kept] if kept is not None else [first]
    return [one and traced(one, *caveats, unknown=unknown) for one in runs]


#: The answers in their order; MiB, causes of caveats, and how many are asked for.
RUNS = {
    "a test that read nothing": ([traced(4, METHOD, unknown=())], 4, [HOW], 1),
    "who waits for values of other ranks is varied when it has them": (
        [traced(4, LOSS, unheard=(1,)), traced(9, LOSS)], 4, [READ], 1
    ),
    "all others raise: nothing is known of what follows": (
        [traced(4, LOSS), raised(2), raised(3)], 4, [READ], 4
    ),
    "one raises after more was taken": ([traced(4, LOSS), raised(5), traced(4, LOSS)], 4, [DEPENDS], 3),
    "it raises by what it was answered: the figure of another": (
        [raised(1), traced(4, LOSS), traced(4, LOSS)], 4, [READ], 4
    ),
    "it needs another that took as much": ([raised(1), traced(4, LOSS), raised(2)], 4, [DEPENDS], 4),
    "if only until it raised": ([raised(4), traced(4, LOSS), raised(2)], 4, [READ], 4),
    "and none that has another figure": ([raised(4), traced(4, LOSS), traced(3, LOSS)], 4, [DEPENDS], 4),
    "the largest size is a bound where the least takes less": (
        of_sizes((9, 9, 4, 2), LOSS, MASK, other="sizes at their largest"), 9, [WORST_CASE], 4
    ),
    "it is none where the least takes more": (
        of_sizes((4, 4, 9, 4), LOSS, MASK, other="sizes at their largest"), 9, [DEPENDS], 4
    ),
    "nor where none does": (
        of_sizes((4, 4, 4, 9), MASK, other="sizes at their largest"), 9, [DEPENDS], 4
    ),
    "draws between 0 and 1 beside it have a run of their own": (
        of_draws(upper=9), 9, [WORST_CASE], 5
    ),
    "which may take more": (
        of_draws(upper=10), 10, [DEPENDS, DEPENDS], 5
    ),
    "draws have two other ends": (of_sizes((4, 4, 9), LOSS, other=CARD_DRAWS), 9, [DEPENDS], 3),
    "so have numbers": (of_sizes((4, 4, 9, 4), LOSS, other="numbers"), 9, [DEPENDS], 4),
    "of several truths one may hold alone": (
        of_sizes((4, 4, 9, 4), LOSS, other="several truths"), 9, [DEPENDS], 4
    ),
    "or another": (of_sizes((4, 4, 4, 9), LOSS, other="several truths"), 9, [DEPENDS], 4),
    "so has what is read behind a truth": (
        [traced(4, LOSS), *of_sizes((4, 9), LOSS, other="numbers")], 9, [DEPENDS], 3
    ),
    "numbers that are none or below zero may take more": (
        of_sizes((4, 4, 4, 9), LOSS, other="numbers"), 9, [DEPENDS], 4
    ),
    "where they take less, a guard has ended what a healthy run does": (
        of_sizes((4, 4, 4, 2), LOSS, other="numbers"), 4, [], 4
    ),
    "where they raise, it has too": ([*of_sizes((4, 4, 4), LOSS, other="numbers"), raised(3)], 4, [], 4),
    "buckets that NCCL lets go of late are no caveat": (
        with_buckets(4, 4, 4, 4, 9, read=()), 9, [HOW], 2
    ),
    "nor is what was read by their figure": (with_buckets(4, 4, 4, 4, 9), 9, [HOW], 5),
    "what was read is one by its own": (with_buckets(4, 6, 4, 4, 9), 9, [DEPENDS, HOW], 5),
    "a bound stays one": (
        with_buckets(9, 9, 4, 4, 12, what=MASK, read=("data", BOUNDS)), 12, [WORST_CASE, HOW], 5
    ),
    "they have a figure, or are one": (
        [*with_buckets(4, 4, 4, 4), Answer("error", "the worker was lost")], 4, [DEPENDS, DEPENDS, HOW], 5
    ),
    "Python may collect garbage later": (with_garbage(4, 9), 9, [HOW, COLLECTED], 2),
    "where that takes no more, or less, nothing depends on it": (with_garbage(4, 4), 4, [HOW], 2),
    "where it takes less, the figure is no bound": (with_garbage(9, 4), 9, [HOW, DEPENDS], 2),
    "the others keep it too, and are compared with that": (
        with_garbage(4, 9, 9, what=LOSS), 9, [HOW, COLLECTED], 3
    ),
    "so what was read is no caveat, or one of its own": (
        with_garbage(4, 9, 12, what=LOSS), 12, [DEPENDS, HOW, COLLECTED], 3
    ),
    "without a figure where it is kept, it is one": (
        [*with_garbage(4), *[None] * 4, Answer("error", "the worker was lost")], 4, [HOW, DEPENDS], 2
    ),
    "random numbers are no cause where others alone change nothing": (of_seeds(4), 9, [DEPENDS], 3),
    "nor is what was read the only one where they do": (of_seeds(5), 9, [DEPENDS, DEPENDS], 3),
    "what odd numbers take is not by random numbers": (
        [traced(size, LOSS, unknown=("data", "numbers", "random numbers that the host draws"))
         for size in (4, 4, 4, 9)],
        9, [DEPENDS], 4,
    ),
    "options that nothing chooses do not hide what odd numbers take": (
        with_options(4, 4, 2, 9, caveats=(LOSS, MASK), read=("data", "numbers")), 10, [DEPENDS, DEPENDS], 5
    ),
    "nor what the least sizes take": (with_options(4, 4, 9, 4), 10, [DEPENDS], 5),
    "but not after it took more": ([*of_sizes((4, 4, 4), LOSS, other="numbers"), raised(5)], 4, [DEPENDS], 4),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_what_the_runs_come_to(name):
    answers, mib, causes, count = RUNS[name]

    *found, requests = told(*answers)

    assert found == [mib, causes]
    assert len(requests) == count
    assert requests[0] == REQUEST


def test_where_both_agree_nothing_is_assumed_and_only_the_first_leaves_a_snapshot():
    size, kinds, requests = told(traced(4, LOSS, METHOD), traced(4, LOSS, METHOD))

    assert (size, kinds) == (4, [HOW])
    assert requests == [REQUEST, replace(REQUEST, variant=1, snapshot=None, figures_only=True)]


@pytest.mark.parametrize("sizes", [(4, 9), (9, 4)])
def test_where_they_differ_the_largest_counts_and_both_are_named(sizes):
    first, other = (traced(size, LOSS, METHOD) for size in sizes)
    answer = ask_with_variants(Asked(first, other), REQUEST)

    assert answer.report.peak_bytes == 9 * MIB
    assert answer.report.caveats == (
        Caveat(DEPENDS, f"{LOSS.text}; with other answers the figure is 4.0 MiB to 9.0 MiB"),
        METHOD,
    )
    assert [one // MIB for one in answer.report.variants] == [sizes[1]]
    assert answer.report.seconds == 0.5 * 3  # of all runs


#: Further runs, and those of them that are asked for all that they are: unknown, answers, variants.
ALIKE = traced(4, LOSS, allocations="other")
AGAIN = {
    "who allocates the same is the first again": ((), [traced(4), traced(4)], []),
    "one that takes less is not": ((), [traced(2)], [1]),
    "nor one that takes more": ((), [traced(9)], [1]),
    "nor one that takes the same by other allocations": ((), [ALIKE], [1]),
    "of two that are the same one is enough": (("numbers",), [ALIKE, ALIKE, traced(4)], [1]),
    "one that raises says what it took": ((), [raised(2), raised(4)], []),
    "but not after more": (("numbers",), [traced(4), raised(5), traced(4)], [2]),
    "one that was lost says nothing": ((), [Answer("error", "lost")], []),
    "a late watchdog's is another": ((WATCHDOG,), [traced(4), traced(4), traced(4), traced(9)], []),
}


#: What a run takes in which no row chooses but the first options, beside others; and what is told of it.
LEFT = {
    "more, which is the worst case then": ((4, 4, 4, 9), 9, [FIRST_ROWS, METHOD]),
    "more than others, which differ": ((4, 3, 2, 9), 9, [FIRST_ROWS, METHOD]),
    "as all others": ((4, 4, 4, 4), 4, [METHOD]),
    "as the first alone, which is the worst case": ((4, 3, 2, 4), 4, [MASK, METHOD]),
    "less, as no worst case has it": ((4, 3, 4, 1), 4, [MASK, METHOD]),
}


@pytest.mark.parametrize("name", LEFT)
def test_options_that_nothing_chooses_count_where_they_take_more(name):
    sizes, expected, caveats = LEFT[name]
    runs = [traced(size, MASK, METHOD, unknown=("data", BOUNDS, CHOICES)) for size in sizes[:3]]
    left = traced(sizes[3], FIRST_ROWS, METHOD, unknown=runs[0].unknown)
    asked = Asked(*runs, traced(1), None, None, None, None, left)
    answer = ask_with_variants(asked, REQUEST)

    assert [one.variant for one in asked.requests] == [0, 1, 2, 3, 8]
    assert (answer.report.peak_bytes // MIB, [*answer.report.caveats]) == (expected, caveats)


@pytest.mark.parametrize("name", AGAIN)
def test_further_runs_are_of_figures_alone_where_they_are_the_same(name):
    unknown, others, expected = AGAIN[name]
    asked = Asked(traced(4, LOSS, unknown=("data", *unknown)), *others)

    ask_with_variants(asked, REQUEST)

    assert [one.variant for one in asked.again] == expected
    assert all(one.figures_only for one in asked.requests[1:] if one.variant != LATE_WATCHDOG)


def test_what_a_rank_before_had_to_run_in_full_is_not_asked_for_figures():
    """Another that is the same needs none then."""
    asked = Asked(traced(4, LOSS, unknown=("data", "numbers")), traced(9), traced(9), traced(4))
    ask_with_variants(asked, REQUEST, in_full={1})

    assert [one.figures_only for one in asked.requests] == [False, False, True, True]
    assert asked.again == []


def test_for_a_budget_of_components_all_of_each_run_is_asked_for():
    """The same allocations may be for other things."""
    asked = Asked(traced(4, LOSS), traced(4, LOSS))
    request = replace(REQUEST, has_components=True)
    ask_with_variants(asked, request)

    assert asked.requests == [request, replace(request, variant=1, snapshot=None)]


def test_what_another_run_alone_does_not_count_is_said_and_that_run_is_asked_for_in_full():
    process = Caveat(PROCESS, "a.py:4: a process is started")
    asked = Asked(traced(4, LOSS), traced(4, LOSS, process))
    answer = ask_with_variants(asked, REQUEST)

    assert [one.variant for one in asked.again] == [1]
    assert answer.report.caveats == (process,)


#: What another run has otherwise, and what is said of it.
OTHERWISE = {
    "held": (
        {"held": HeldMemory(2 * MIB)}, "4.0 MiB too, but what is held when the body ends is 0 B to 2.0 MiB"
    ),
    "reserved": (
        {"peak": {"allocated": 4 * MIB, "reserved": 6 * MIB, "device": 4 * MIB}},
        "4.0 MiB too, but reserved memory is 4.0 MiB to 6.0 MiB",
    ),
    "host": (
        {"host": MemoryReport("traced", "allocated", {"allocated": 2 * MIB}, {"inputs": 2 * MIB})},
        "4.0 MiB too, but host memory is 0 B to 2.0 MiB",
    ),
    "a component": (
        {"components": {"inputs": MIB, "activations": 3 * MIB}},
        "4.0 MiB too, but the part of inputs is 1.0 MiB to 4.0 MiB",
    ),
    "a little": ({"peak": dict.fromkeys(METRICS, 4 * MIB + 512)}, "4.0 MiB, and up to 512 bytes more"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_differs_is_named_where_the_figure_does_not(name):
    parts, expected = OTHERWISE[name]
    first = traced(4, LOSS)
    other = replace(first, reports=(replace(first.report, **parts),), allocations="others")

    [caveat] = ask_with_variants(Asked(first, other), REQUEST).report.caveats
    causes = {
        "held": HELD_DEPENDS,
        "reserved": METRIC_DEPENDS,
        "host": HOST_DEPENDS,
        "a component": COMPONENT_DEPENDS,
    }
    cause = causes.get(name, DEPENDS)
    assert caveat == Caveat(cause, f"{LOSS.text}; with other answers the figure is {expected}")


@pytest.mark.parametrize("what", [None, LOSS])
@pytest.mark.parametrize("name", OTHERWISE)
def test_so_is_what_garbage_holds_otherwise_also_where_another_run_takes_most(name, what):
    parts, expected = OTHERWISE[name]
    *others, kept = with_garbage(4, 4, 9, what=what)
    kept = replace(kept, reports=(replace(kept.report, **parts),), allocations="garbage")
    causes = {"held": HELD_DEPENDS, "host": HOST_DEPENDS, "reserved": METRIC_DEPENDS, "a little": COLLECTED}

    report = ask_with_variants(Asked(*others, kept), REQUEST).report
    assert report.peak_bytes // MIB == (9 if what else 4)
    cause = causes.get(name, COMPONENT_DEPENDS)
    assert Caveat(cause, f"{GARBAGE}; the figure is {expected}") in report.caveats


def test_each_part_that_differs_counts_where_a_budget_limits_it():
    first = traced(4, LOSS)
    parts = {"held": HeldMemory(2 * MIB), "components": {"activations": 4 * MIB}}
    other = replace(first, reports=(replace(first.report, **parts),), allocations="others")

    caveats = ask_with_variants(Asked(first, other), REQUEST).report.caveats
    assert [one.cause for one in caveats] == [HELD_DEPENDS, COMPONENT_DEPENDS]


def test_the_range_is_of_what_counts():
    """Not of the least sizes, which take less; what alone differs is what Python has not collected."""
    first, least = (traced(size, LOSS, unknown=("data", BOUNDS)) for size in (9, 4))
    other = replace(first, reports=(replace(first.report, held=HeldMemory(2 * MIB)),), allocations="others")

    [caveat] = ask_with_variants(Asked(first, other, least, least), REQUEST).report.caveats
    assert caveat.cause is HELD_DEPENDS
    assert "the figure is 9.0 MiB too, but what is held" in caveat.text


def test_the_range_is_not_of_a_late_watchdog_which_says_nothing_of_what_was_read():
    first, other, odd, late = with_buckets(4, 4, 4, 9)
    held = replace(first, reports=(replace(first.report, held=HeldMemory(2 * MIB)),), allocations="others")

    report = ask_with_variants(Asked(first, held, other, odd, late), REQUEST).report
    assert report.peak_bytes == 9 * MIB
    caveat, _ = report.caveats
    assert caveat.cause is HELD_DEPENDS
    assert "the figure is 4.0 MiB too, but what is held" in caveat.text


def test_draws_are_not_named_where_what_is_held_alone_differs_with_others():
    first, other, *_, reseeded = of_seeds(4)
    held = replace(reseeded.report, held=HeldMemory(2 * MIB))
    asked = Asked(first, other, None, None, None, None, replace(reseeded, reports=(held,)))

    [caveat] = ask_with_variants(asked, REQUEST).report.caveats
    assert caveat.text.startswith(LOSS.text)


def test_one_that_raises_sooner_is_no_difference_of_figures():
    first = traced(4, LOSS, unknown=("data", "numbers"))
    other = replace(first, reports=(replace(first.report, held=HeldMemory(2 * MIB)),), allocations="others")

    [caveat] = ask_with_variants(Asked(first, other, first, raised(1)), REQUEST).report.caveats
    assert caveat.cause is HELD_DEPENDS


@pytest.mark.parametrize(
    ("falling", "cause"),
    [
        pytest.param(raised(9), DEPENDS, id="one-that-raises-at-its-end"),
        pytest.param(Answer("error", "it did not finish"), DEPENDS, id="one-without-an-end"),
        pytest.param(
            replace(
                traced(4), reports=(replace(traced(4).report, host=traced(9).report),), allocations="others"
            ),
            HOST_DEPENDS,
            id="more-on-the-host",
        ),
    ],
)
def test_falling_numbers_count_as_odd_ones_do_where_they_take_more(falling, cause):
    """Beside those, of which each takes what the first run does."""
    first = traced(4, LOSS, unknown=("data", "numbers", LOOPS))
    runs = [first] * 4 + [None] * 5 + [falling]

    [caveat] = ask_with_variants(Asked(*runs), REQUEST).report.caveats
    assert caveat.cause is cause


def test_one_that_raises_keeps_its_answer_in_the_next():
    size, kinds, requests = told(traced(4, LOSS), raised(2, "a.py:7"), traced(4, LOSS))

    assert (size, kinds) == (4, [])
    assert requests[-1] == replace(REQUEST, variant=2, steady=("a.py:7",), snapshot=None, figures_only=True)


@pytest.mark.parametrize(("size", "kinds"), [(4, []), (9, [DEPENDS])])
def test_where_all_others_raise_one_more_answer_after_the_other_is_kept(size, kinds):
    """Of each line by which they raise: two assertions hide what a branch behind them takes."""
    lines, asked = ("a.py:7", "a.py:8", "a.py:9"), []

    def ask(request):
        asked.append(request)
        if request.variant == 1:
            count = len(request.steady)
            return traced(size, LOSS) if count == 3 else raised(2, lines[count])
        return raised(2, lines[0]) if request.variant else traced(4, LOSS)

    answer = ask_with_variants(ask, REQUEST)

    assert answer.report.peak_bytes == size * MIB
    assert [one.cause for one in answer.report.caveats] == kinds
    steady = [one.steady for one in asked if one.variant == 1 and one.figures_only]
    assert steady == [(), lines[:1], lines[:2], lines]


def test_where_another_run_has_no_end_nothing_is_checked():
    answer = ask_with_variants(Asked(traced(4, LOSS), Answer("error", "it did not finish\nat")), REQUEST)

    assert answer.report.caveats == (
        Caveat(DEPENDS, f"{LOSS.text}; with other answers the test has no figure: it did not finish"),
    )


@pytest.mark.parametrize(("size", "kinds"), [(4, [READ]), (9, [READ, DEPENDS])])
def test_where_all_others_raise_draws_are_made_again_alone(size, kinds):
    drew = ("data", "random numbers that the host draws")
    runs = [traced(4, LOSS, unknown=drew), raised(2), raised(3), traced(size, LOSS, unknown=drew)]

    figure, found, requests = told(*runs)
    assert (figure, found) == (size, kinds)
    assert requests[-1] == replace(REQUEST, variant=1, steady=("*",), snapshot=None, figures_only=True)


@pytest.mark.parametrize(
    ("sizes", "kinds"),
    [
        ([(2, 5)], []),  # a loop that ends later
        ([(8, 1), (8, 1)], []),  # a branch that two of them have taken
        ([(400, 1)], [SIZE_READ]),
        ([(2, 1), (2, 200)], [SIZE_READ]),
    ],
)
def test_a_number_stays_unchecked_where_two_runs_have_sizes_of_their_own(sizes, kinds):
    both = {"unknown": ("data", "numbers")}
    others = [
        traced(4, WHOLE, LOSS, sizes=((2, 4), one), allocations=f"{number}", **both)
        for number, one in enumerate([*sizes, (2, 4)][:2])
    ]
    first = traced(4, WHOLE, LOSS, sizes=((2, 4),), **both)

    assert told(first, *others, first)[:2] == (4, 2 * kinds)


@pytest.mark.parametrize(
    ("sizes", "expected", "kinds"),
    [((1, 2, 4, 4), 4, []), ((1, 2, 4, 9), 9, [DEPENDS]), ((5, 5, 4, 4), 4, [DEPENDS])],
)
def test_the_truths_by_which_the_first_raises_are_turned_in_all_runs(sizes, expected, kinds):
    """Assertions of what nobody knows: one after the other holds. A run that took more counts as it did."""
    lines, asked = ("a.py:7", "a.py:8"), []

    def ask(request):
        asked.append(request)
        count = sum(one.startswith(TURNED) for one in request.steady)
        if count < 2 and not request.variant:
            return raised(sizes[count], lines[count])
        return traced(sizes[2 if request.variant != 1 else 3], LOSS)

    answer = ask_with_variants(ask, REQUEST)

    assert answer.report.peak_bytes == expected * MIB
    assert [one.cause for one in answer.report.caveats] == kinds
    turned = tuple(f"{TURNED}{line}" for line in lines)
    if sizes[0] < 4:
        assert [(one.variant, one.steady) for one in asked[2:4]] == [(0, turned), (1, turned)]


def test_where_all_raise_one_selects_nothing_and_has_plausible_answers():
    """As of what an assertion has found to differ."""
    asked = Asked(*[replace(raised(4), unknown=("data", BOUNDS))] * 4, traced(8, LOSS, MASK))

    answer = ask_with_variants(asked, REQUEST)

    assert answer.report.peak_bytes == 8 * MIB
    assert [one.cause for one in answer.report.caveats] == [DEPENDS, DEPENDS]
    assert (asked.requests[-1].variant, asked.requests[-1].steady) == (ODD_NUMBERS, (EVERYWHERE,))


@pytest.mark.parametrize(
    ("runs", "kinds"),
    [
        (by_truths(), []),
        (by_truths((400, 1)), [SIZE_READ, SIZE_READ]),  # by a number of the second run
        (by_truths(pairs=((7, 1), (8, 1))), [SIZE_READ, SIZE_READ]),  # of the first
        (by_truths(pairs=((6, 1), (9, 1))), [SIZE_READ, SIZE_READ]),
    ],
)
def test_sizes_that_follow_from_truths_are_made_of_no_number(runs, kinds):
    def ask(request):
        sizes, unknown = runs[request.variant, request.steady], ("data", "numbers", "several truths")
        return traced(4, WHOLE, LOSS, sizes=sizes, allocations=f"{sizes}", unknown=unknown)

    assert [one.cause for one in ask_with_variants(ask, REQUEST).report.caveats] == kinds


@pytest.mark.parametrize(("with_another_size", "kinds"), [(2, []), (1, [SIZE_READ, SIZE_READ])])
def test_the_run_with_the_least_sizes_says_nothing_of_numbers(with_another_size, kinds):
    both = {"unknown": ("data", "numbers", BOUNDS)}
    sizes = [((2, 4), (400, 1)) if run == with_another_size else ((2, 4),) for run in range(4)]
    runs = [
        traced(4, WHOLE, LOSS, sizes=one, allocations=f"{number}", **both) for number, one in enumerate(sizes)
    ]

    assert told(*runs)[:2] == (4, kinds)


def test_random_numbers_of_the_host_are_named():
    runs = [traced(size, unknown=("random numbers that the host draws",)) for size in (4, 5)]
    answer = ask_with_variants(Asked(*runs), REQUEST)

    [caveat] = answer.report.caveats
    assert caveat.text.startswith("random numbers that the host draws; with other answers")


@pytest.mark.parametrize("end", [Answer("error", "the worker was lost", unknown=("data",)), raised(1)])
def test_without_any_figure_the_first_is_told(end):
    assert ask_with_variants(Asked(end, raised(2), raised(2)), REQUEST) is end


LOST = {
    "out of memory": replace(traced(80_000, MASK, unknown=("data", BOUNDS, WAITING)), outcome=OUT_OF_MEMORY),
    "ended": traced(80_000, MASK, unknown=("data", BOUNDS, WAITING, ENDLESS)),
    "over its time limit": Answer("error", "over its time limit"),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_size_that_a_further_run_waits_for_is_unchecked(lost):
    """What the least sizes alone make endless: its memory is no figure."""
    first = traced(10, MASK, unknown=("data", BOUNDS))

    answer = ask_with_variants(lambda one: {0: first, 2: lost}.get(one.variant, first), REQUEST)

    assert (answer.outcome, answer.peak_bytes) == ("traced", 10 * MIB)
    [caveat] = answer.report.caveats
    assert caveat.cause is DEPENDS
    assert "with other answers the test has no figure: " in caveat.text


def test_a_further_run_that_is_out_of_memory_is_the_tests():
    first = traced(10, MASK, unknown=("data", BOUNDS))
    over = replace(traced(80_000, MASK), outcome=OUT_OF_MEMORY)

    answer = ask_with_variants(lambda one: {0: first, 2: over}.get(one.variant, first), REQUEST)

    assert answer.outcome == OUT_OF_MEMORY
