"""What of a figure is over its budget; which trials a failure lists, and in which order."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.components import METRICS
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.advice import Advice, Excess, excess_of, savings_first

GIB = 2**30
CARD = "T4"


def report(**components):
    total = sum(components.values())
    return MemoryReport("traced", "allocated", dict.fromkeys(METRICS, total), components)


@pytest.mark.parametrize(
    ("budget", "ran_out", "excess"),
    [
        (Budget(gib=2), False, Excess(None, 2 * GIB)),
        (Budget(gib=4, components={"activations": 1}), False, Excess("activations", GIB)),
        (Budget(gib=4, host_gib=1), False, None),
        (Budget(gib=2, gpu=CARD), False, Excess(None, 2 * GIB)),
        # what the card can hold is what is missing, though the budget is less
        (Budget(gib=2, gpu=CARD), True, Excess(None, find_gpu(CARD).usable_bytes)),
    ],
)
def test_the_total_comes_before_components(budget, ran_out, excess):
    assert excess_of(budget, report(activations=3 * GIB), ran_out=ran_out) == excess


def test_what_is_missing_is_that_of_the_component():
    held = report(activations=3 * GIB, parameters=5 * GIB)

    assert Excess("activations", GIB).missing_bytes(held) == 2 * GIB
    assert Excess(None, GIB).missing_bytes(held) == 7 * GIB
    assert Excess(None, 9 * GIB).missing_bytes(held) == 0


def listed(figures, figure=1000, missing=200):
    return [*savings_first(figures, figure, missing)]


def test_the_largest_saving_comes_first():
    assert listed({"small": 950, "large": 400, "middle": 900}) == ["large", "middle", "small"]


def test_what_saves_less_than_a_hundredth_of_what_is_missing_is_left_out():
    """200 are missing, so that 2 count and 1 does not."""
    assert listed({"counts": 998, "does not": 999}) == ["counts"]


def test_what_saves_nothing_or_takes_more_is_left_out():
    assert listed({"same": 1000, "more": 1100}, missing=0) == []


def test_the_json_is_read_again():
    advice = Advice(1000, 800, {"AdamW(..., fused=True)": 700, "half the batch": None})

    assert Advice.from_json(advice.to_json(), checked=True) == advice
    assert (advice.tried, advice.untried) == ({"AdamW(..., fused=True)": 700}, ["half the batch"])
