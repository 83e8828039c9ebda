"""A budget and what was found out: within or not, and why."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import ERROR, OVER, WITHIN, Verdict, judge, suggested_gib
from pytest_membudget.components import COMPONENTS
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.hardware.machines import Machine
from pytest_membudget.memory_report import MemoryReport, PeakBytes

GIB = 1_073_741_824
T4 = find_gpu("T4").usable_bytes


def report(allocated_bytes=0, *, reserved_bytes=0, device_bytes=0, metric="allocated", rank=0, **held):
    return MemoryReport(
        kind="traced",
        metric=metric,
        peak=PeakBytes(allocated_bytes, allocated_bytes, reserved_bytes, device_bytes),
        components={**dict.fromkeys(COMPONENTS, 0), **held},
        rank=rank,
    )


def test_less_than_the_budget_is_within_and_says_its_share():
    verdict = judge(Budget(gib=40), [report(10 * GIB)])
    assert verdict == Verdict(WITHIN, "25% of its budget of 40 GiB")


def test_exactly_the_budget_is_within():
    assert judge(Budget(gib=2), [report(2 * GIB)]) == Verdict(WITHIN, "100% of its budget of 2 GiB")


def test_one_byte_more_than_the_budget_is_over():
    assert judge(Budget(gib=2), [report(2 * GIB + 1)]) == Verdict(OVER, "1 B over its budget of 2 GiB")


def test_over_says_by_how_much():
    verdict = judge(Budget(gib=0.5), [report(2 * GIB)])
    assert verdict == Verdict(OVER, "1.50 GiB over its budget of 0.5 GiB")


@pytest.mark.parametrize(("metric", "name"), [("allocated", WITHIN), ("reserved", WITHIN), ("device", OVER)])
def test_the_budget_is_held_to_its_own_metric(metric, name):
    taken = report(1 * GIB, reserved_bytes=2 * GIB, device_bytes=3 * GIB, metric=metric)
    assert judge(Budget(gib=2, metric=metric), [taken]).name == name


# Nothing that checked nothing passes


def test_no_report_is_an_error():
    assert judge(Budget(gib=40), []) == Verdict(ERROR, "no estimate: nothing was checked")


@pytest.mark.parametrize("budget", [Budget(gib=40), Budget(gpu="T4"), Budget(components={"activations": 1})])
def test_a_test_that_allocated_nothing_is_an_error_and_says_what_to_do(budget):
    verdict = judge(budget, [report(0)])
    assert verdict.name == ERROR
    assert "allocated nothing on cuda" in verdict.reason
    assert "put the model and its inputs on device 'cuda'" in verdict.reason


def test_a_context_alone_checks_nothing():
    empty = report(0, device_bytes=GIB, metric="device", context=GIB)
    assert judge(Budget(gib=40, metric="device"), [empty]).name == ERROR


def test_one_rank_that_allocated_is_enough_to_check_something():
    assert judge(Budget(gib=40), [report(0), report(GIB, rank=1)]).name == WITHIN


# What a card can hold


def test_without_gib_the_budget_is_what_the_card_can_hold():
    verdict = judge(Budget(gpu="T4"), [report(T4 // 2)])
    assert verdict == Verdict(WITHIN, f"50% of its budget of {T4 / GIB:.2f} GiB, what T4 can hold")


def test_exactly_what_the_card_can_hold_is_within():
    assert judge(Budget(gpu="T4"), [report(T4)]).name == WITHIN


def test_one_byte_more_than_the_card_can_hold_is_over():
    verdict = judge(Budget(gpu="T4"), [report(T4 + 1)])
    assert verdict == Verdict(OVER, f"1 B over its budget of {T4 / GIB:.2f} GiB, what T4 can hold")


def test_gib_rules_over_what_the_card_can_hold():
    verdict = judge(Budget(gib=10, gpu="T4"), [report(11 * GIB)])
    assert verdict == Verdict(OVER, "1.00 GiB over its budget of 10 GiB")


# Budgets of components


def test_a_component_within_its_budget_leaves_the_whole_its_verdict():
    taken = report(10 * GIB, activations=3 * GIB)
    verdict = judge(Budget(gib=40, components={"activations": 4}), [taken])
    assert verdict == Verdict(WITHIN, "25% of its budget of 40 GiB")


def test_a_component_exactly_at_its_budget_is_within():
    taken = report(4 * GIB, activations=4 * GIB)
    verdict = judge(Budget(components={"activations": 4}), [taken])
    assert verdict == Verdict(WITHIN, "all components within their budgets")


def test_one_byte_more_than_the_budget_of_a_component_is_over():
    taken = report(4 * GIB + 1, activations=4 * GIB + 1)
    verdict = judge(Budget(components={"activations": 4}), [taken])
    assert verdict == Verdict(OVER, "activations 1 B over their budget of 4 GiB")


def test_a_component_over_its_budget_is_over_though_the_whole_is_within():
    taken = report(10 * GIB, activations=5 * GIB)
    verdict = judge(Budget(gib=40, components={"gradients": 1, "activations": 4}), [taken])
    assert verdict == Verdict(OVER, "activations 1.00 GiB over their budget of 4 GiB")


def test_the_total_is_reported_before_its_components():
    taken = report(50 * GIB, activations=5 * GIB)
    verdict = judge(Budget(gib=40, components={"activations": 4}), [taken])
    assert verdict == Verdict(OVER, "10.00 GiB over its budget of 40 GiB")


# Several ranks


@pytest.mark.parametrize("sizes", [(1, 3, 2), (3, 1, 2), (2, 1, 3)])
def test_the_worst_of_several_ranks_decides(sizes):
    reports = [report(size * GIB, rank=rank) for rank, size in enumerate(sizes)]
    assert judge(Budget(gib=2), reports) == Verdict(OVER, "1.00 GiB over its budget of 2 GiB")


def test_ranks_within_are_reported_by_the_worst_share():
    reports = [report(1 * GIB), report(3 * GIB, rank=1), report(2 * GIB, rank=2)]
    assert judge(Budget(gib=4), reports) == Verdict(WITHIN, "75% of its budget of 4 GiB")


def test_a_component_over_on_any_rank_is_over():
    reports = [report(4 * GIB, activations=1 * GIB), report(2 * GIB, activations=2 * GIB, rank=1)]
    verdict = judge(Budget(gib=40, components={"activations": 1}), reports)
    assert verdict == Verdict(OVER, "activations 1.00 GiB over their budget of 1 GiB")


@pytest.mark.parametrize("sizes", [(1, 3, 2), (3, 1, 2)])
def test_the_rank_that_decides_is_named(sizes):
    reports = [report(size * GIB, rank=rank) for rank, size in enumerate(sizes)]
    worst = sizes.index(3)

    over = judge(Budget(gib=2, gpus=3), reports)
    assert over == Verdict(OVER, f"rank {worst} of 3: 1.00 GiB over its budget of 2 GiB", worst)
    within = judge(Budget(gib=4, gpus=3), reports)
    assert within == Verdict(WITHIN, f"rank {worst} of 3: 75% of its budget of 4 GiB", worst)


def test_a_component_over_its_budget_is_reported_of_the_rank_with_most():
    reports = [report(4 * GIB, activations=2 * GIB), report(2 * GIB, activations=3 * GIB, rank=1)]
    verdict = judge(Budget(gib=40, gpus=2, components={"activations": 1}), reports)
    assert verdict == Verdict(OVER, "rank 1 of 2: activations 2.00 GiB over their budget of 1 GiB", 1)


# Host memory


def held(host_bytes, first=0, last=0):
    return Machine(first, last, host_bytes)


def test_host_memory_is_held_to_its_budget():
    budget = Budget(gib=40, host_gib=150)
    assert judge(budget, [report(10 * GIB)], held(150 * GIB)).name == WITHIN
    verdict = judge(budget, [report(10 * GIB)], held(150 * GIB + 1))
    assert verdict == Verdict(OVER, "host memory 1 B over its budget of 150 GiB a machine")


def test_host_memory_within_its_budget_is_reported_with_the_cards():
    verdict = judge(Budget(gib=40, host_gib=160), [report(10 * GIB)], held(120 * GIB))
    reason = "25% of its budget of 40 GiB; host memory 75% of its budget of 160 GiB a machine"
    assert verdict == Verdict(WITHIN, reason)


def test_the_ranks_of_the_machine_are_named():
    reports = [report(GIB), report(GIB, rank=15)]
    verdict = judge(Budget(host_gib=150, gpus=16), reports, held(155 * GIB, 8, 15))
    reason = (
        "host memory 5.00 GiB over its budget of 150 GiB a machine: "
        "ranks 8 to 15 of one hold 155.00 GiB together"
    )
    assert verdict == Verdict(OVER, reason)


@pytest.mark.parametrize("machine", [None, Machine(0, 1, 0)])
@pytest.mark.parametrize("taken", [1, 50])
def test_a_budget_of_host_memory_that_checked_nothing_is_an_error_and_says_what_to_do(machine, taken):
    verdict = judge(Budget(gib=40, host_gib=150, gpus=2), [report(taken * GIB)], machine)
    assert verdict.name == ERROR
    assert verdict.reason == (
        "the test held nothing in host memory, so host_gib=150 checked nothing; "
        "offload to the host what it is for, or leave host_gib out"
    )


def test_with_a_budget_of_host_memory_alone_nothing_need_be_on_the_card():
    verdict = judge(Budget(host_gib=150), [report(0)], held(75 * GIB))
    assert verdict == Verdict(WITHIN, "host memory 50% of its budget of 150 GiB a machine")


def test_host_memory_does_not_check_the_cards_budget():
    assert judge(Budget(gib=40, host_gib=150), [report(0)], held(75 * GIB)).name == ERROR


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


def test_without_a_limit_the_verdict_says_what_to_write_on_the_rank_that_takes_most():
    reports = [report(GIB), report(3 * GIB // 2, rank=1)]

    verdict = judge(Budget(gpus=2), reports)

    assert (verdict.name, verdict.rank) == ("unset", 1)
    assert verdict.reason == "rank 1 of 2: takes 1.50 GiB, and nothing limits it"
