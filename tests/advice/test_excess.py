"""What of a figure is over its budget."""

import pytest

from pytest_membudget.advice.excess import Excess, excess_of
from pytest_membudget.budgets.budget import Budget
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.memory_report import MemoryReport, PeakBytes

GIB = 2**30
CARD = "T4"


def report(**components):
    total = sum(components.values())
    return MemoryReport("traced", "allocated", PeakBytes(total, total, total, total), components)


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
