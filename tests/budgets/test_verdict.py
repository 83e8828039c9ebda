"""A budget and what was found out: within or not, and why."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import ERROR, OVER, UNDECIDED, WITHIN, Verdict, judge, suggested_gib
from pytest_membudget.components import COMPONENTS
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.hardware.machines import Machine
from pytest_membudget.memory_report import HeldMemory, MemoryReport

GIB = 1_073_741_824
T4 = find_gpu("T4").usable_bytes


def report(allocated_bytes=0, *, reserved_bytes=0, device_bytes=0, metric="allocated", rank=0, **held):
    return MemoryReport(
        kind="traced",
        metric=metric,
        peak={"allocated": allocated_bytes, "reserved": reserved_bytes, "device": device_bytes},
        components={**dict.fromkeys(COMPONENTS, 0), **held},
        rank=rank,
    )


def held(host_bytes, first=0, last=0):
    return Machine(first, last, host_bytes)


CAN_HOLD = f"its budget of {T4 / GIB:.2f} GiB, what T4 can hold"
ACTIVATIONS = Budget(components={"activations": 4})
BOTH = Budget(gib=40, components={"activations": 4})
ONE = Budget(gib=40, components={"activations": 1})
HOST = Budget(gib=40, host_gib=150)
#: Budget, reports, the fullest machine; and what is said of them.
JUDGED = {
    "less is within and says its share": (
        Budget(gib=40), [report(10 * GIB)], None, Verdict(WITHIN, "25% of its budget of 40 GiB")),
    "exactly the budget": (
        Budget(gib=2), [report(2 * GIB)], None, Verdict(WITHIN, "100% of its budget of 2 GiB")),
    "a byte more": (
        Budget(gib=2), [report(2 * GIB + 1)], None, Verdict(OVER, "1 B over its budget of 2 GiB")),
    "over says by how much": (
        Budget(gib=0.5), [report(2 * GIB)], None, Verdict(OVER, "1.50 GiB over its budget of 0.5 GiB")),
    "no report": (Budget(gib=40), [], None, Verdict(ERROR, "no estimate: nothing was checked")),
    "what a card can hold": (
        Budget(gpu="T4"), [report(T4 // 2)], None, Verdict(WITHIN, f"50% of {CAN_HOLD}")),
    "exactly that": (Budget(gpu="T4"), [report(T4)], None, Verdict(WITHIN, f"100% of {CAN_HOLD}")),
    "a byte more than that": (
        Budget(gpu="T4"), [report(T4 + 1)], None, Verdict(OVER, f"1 B over {CAN_HOLD}")),
    "gib rules over the card": (
        Budget(gib=10, gpu="T4"), [report(11 * GIB)], None,
        Verdict(OVER, "1.00 GiB over its budget of 10 GiB")),
    "a component within": (
        BOTH, [report(10 * GIB, activations=3 * GIB)], None, Verdict(WITHIN, "25% of its budget of 40 GiB")),
    "a component exactly at its budget": (
        ACTIVATIONS, [report(4 * GIB, activations=4 * GIB)], None,
        Verdict(WITHIN, "all components within their budgets")),
    "a byte more of a component": (
        ACTIVATIONS, [report(4 * GIB + 1, activations=4 * GIB + 1)], None,
        Verdict(OVER, "activations 1 B over their budget of 4 GiB")),
    "a component over, the whole within": (
        BOTH, [report(10 * GIB, activations=5 * GIB)], None,
        Verdict(OVER, "activations 1.00 GiB over their budget of 4 GiB")),
    "the total before its components": (
        BOTH, [report(50 * GIB, activations=5 * GIB)], None,
        Verdict(OVER, "10.00 GiB over its budget of 40 GiB")),
    "a component over on any rank": (
        ONE, [report(4 * GIB, activations=GIB), report(2 * GIB, activations=2 * GIB, rank=1)], None,
        Verdict(OVER, "activations 1.00 GiB over their budget of 1 GiB")),
    "a component, of the rank with most": (
        Budget(gib=40, gpus=2, components={"activations": 1}),
        [report(4 * GIB, activations=2 * GIB), report(2 * GIB, activations=3 * GIB, rank=1)], None,
        Verdict(OVER, "rank 1 of 2: activations 2.00 GiB over their budget of 1 GiB", 1)),
    "host memory at its budget": (
        HOST, [report(10 * GIB)], held(150 * GIB),
        Verdict(WITHIN, "25% of its budget of 40 GiB; host memory 100% of its budget of 150 GiB a machine")),
    "a byte more of host memory": (
        HOST, [report(10 * GIB)], held(150 * GIB + 1),
        Verdict(OVER, "host memory 1 B over its budget of 150 GiB a machine")),
    "the ranks of the machine": (
        Budget(host_gib=150, gpus=16), [report(GIB), report(GIB, rank=15)], held(155 * GIB, 8, 15),
        Verdict(OVER, "host memory 5.00 GiB over its budget of 150 GiB a machine: ranks 8 to 15 of one hold "
                "155.00 GiB together")),
    "host memory alone": (
        Budget(host_gib=150), [report(0)], held(75 * GIB),
        Verdict(WITHIN, "host memory 50% of its budget of 150 GiB a machine")),
    "without a limit, the rank that takes most": (
        Budget(gpus=2), [report(GIB), report(3 * GIB // 2, rank=1)], None,
        Verdict("unset", "rank 1 of 2: takes 1.50 GiB, and nothing limits it", 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_said_of_a_budget(name):
    budget, reports, machine, verdict = JUDGED[name]

    assert judge(budget, reports, machine) == verdict


@pytest.mark.parametrize(("metric", "name"), [("allocated", WITHIN), ("reserved", WITHIN), ("device", OVER)])
def test_the_budget_is_held_to_its_own_metric(metric, name):
    taken = report(1 * GIB, reserved_bytes=2 * GIB, device_bytes=3 * GIB, metric=metric)
    assert judge(Budget(gib=2, metric=metric), [taken]).name == name


# Nothing that checked nothing passes


@pytest.mark.parametrize("budget", [Budget(gib=40), Budget(gpu="T4"), Budget(components={"activations": 1})])
def test_a_test_that_allocated_nothing_is_an_error_and_says_what_to_do(budget):
    verdict = judge(budget, [report(0)])
    assert verdict.name == ERROR
    assert "allocated nothing on cuda" in verdict.reason
    assert "put the model and its inputs on device 'cuda'" in verdict.reason


def test_neither_a_context_nor_host_memory_checks_what_is_allocated_and_one_rank_is_enough():
    empty = report(0, device_bytes=GIB, metric="device", context=GIB)
    assert judge(Budget(gib=40, metric="device"), [empty]).name == ERROR
    assert judge(HOST, [report(0)], held(75 * GIB)).name == ERROR
    assert judge(Budget(gib=40), [report(0), report(GIB, rank=1)]).name == WITHIN


@pytest.mark.parametrize("sizes", [(1, 3, 2), (3, 1, 2), (2, 1, 3)])
def test_the_worst_of_several_ranks_decides_and_is_named(sizes):
    reports = [report(size * GIB, rank=rank) for rank, size in enumerate(sizes)]
    worst = sizes.index(3)

    assert judge(Budget(gib=2), reports) == Verdict(OVER, "1.00 GiB over its budget of 2 GiB")
    over = judge(Budget(gib=2, gpus=3), reports)
    assert over == Verdict(OVER, f"rank {worst} of 3: 1.00 GiB over its budget of 2 GiB", worst)
    within = judge(Budget(gib=4, gpus=3), reports)
    assert within == Verdict(WITHIN, f"rank {worst} of 3: 75% of its budget of 4 GiB", worst)


@pytest.mark.parametrize("machine", [None, Machine(0, 1, 0)])
@pytest.mark.parametrize("taken", [1, 50])
def test_a_budget_of_host_memory_that_checked_nothing_is_an_error_and_says_what_to_do(machine, taken):
    verdict = judge(Budget(gib=40, host_gib=150, gpus=2), [report(taken * GIB)], machine)
    assert verdict.name == ERROR
    assert verdict.reason == (
        "the test held nothing in host memory, so host_gib=150 checked nothing; "
        "offload to the host what it is for, or leave host_gib out"
    )


@pytest.mark.parametrize(
    ("size_bytes", "gib"),
    [
        (0, 0),
        (1, 9.4e-10),
        (10 * GIB, 10),
        (10 * GIB + 1, 11),
        (int(74.67 * GIB), 75),
        (int(0.0123 * GIB), 0.013),
    ],
)
def test_the_suggested_budget_has_two_digits_and_is_enough(size_bytes, gib):
    assert suggested_gib(size_bytes) == gib  # 1 / 2**30 is 9.31e-10


def staying(held_gib, rank=0):
    return replace(report(4 * GIB, rank=rank), held=HeldMemory(int(held_gib * GIB)))


def test_what_stays_is_held_to_its_budget():
    budget = Budget(held_gib=0.5)

    assert judge(budget, [staying(0.5)]) == Verdict(WITHIN, "what is held within its budget")
    reason = "2.00 GiB still held when the body ends, 1.50 GiB over its budget of 0.5 GiB"
    assert judge(budget, [staying(2)]) == Verdict(OVER, reason)
    of_rank = judge(replace(budget, gpus=2), [staying(0), staying(2, rank=1)])
    assert of_rank == Verdict(OVER, f"rank 1 of 2: {reason}", 1)


def test_a_budget_of_what_stays_without_a_run_is_unchecked():
    verdict = judge(Budget(gib=8, held_gib=0.5), [report(4 * GIB)])

    assert verdict.name == ERROR
    assert "so held_gib=0.5 checked nothing" in verdict.reason


# A figure with a margin

BETWEEN = "its budget of 10.00 GiB is between"


@pytest.mark.parametrize(
    ("gib", "verdict"),
    [
        (10, Verdict(OVER, "1.00 GiB over its budget of 9 GiB")),
        (9, Verdict(UNDECIDED, f"allocated 9.00 GiB, up to 11.25 GiB with its margin of 25%: {BETWEEN}")),
        (8, Verdict(WITHIN, "80% of its budget of 10 GiB")),
    ],
)
def test_a_figure_is_over_without_its_margin_and_within_with_it(gib, verdict):
    budget = Budget(gib=9 if gib == 10 else 10)

    assert judge(budget, [replace(report(gib * GIB), margin=0.25)]) == verdict


def test_a_component_may_be_undecided_and_host_memory():
    taken = replace(report(8 * GIB, activations=9 * GIB), margin=0.25)
    by_component = judge(Budget(components={"activations": 10}), [taken])
    on_the_host = judge(Budget(gib=40, host_gib=10), [replace(taken, components={})], held(9 * GIB))

    assert by_component == Verdict(
        UNDECIDED, f"activations 9.00 GiB, up to 11.25 GiB with its margin of 25%: {BETWEEN}"
    )
    assert on_the_host == Verdict(
        UNDECIDED, f"host memory 9.00 GiB, up to 11.25 GiB with its margin of 25%: {BETWEEN}"
    )


def test_of_several_ranks_the_one_that_may_take_most_is_undecided():
    found = judge(
        Budget(gib=10, gpus=2),
        [replace(report(9 * GIB, rank=0), margin=0.25), replace(report(8 * GIB, rank=1), margin=0.5)],
    )

    assert (found.name, found.rank) == (UNDECIDED, 1)
