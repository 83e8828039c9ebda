"""Advice for a test over its budget: what of it is over, which changes are tried, which trials are listed."""

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.verdict import Part
from pytest_membudget.components import METRICS
from pytest_membudget.hardware.gpus import find_gpu
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.advice import CHANGES, Advice, excess_of, savings_first, worth_trying
from pytest_membudget.worker.server.changes.table import APPLY

GIB = 2**30
CARD = "T4"


def report(**components):
    total = sum(components.values())
    return MemoryReport("traced", "allocated", dict.fromkeys(METRICS, total), components)


def part(of, limit_bytes, held):
    return Part("components" if of else "gib", of, limit_bytes, held)


@pytest.mark.parametrize(
    ("budget", "ran_out", "excess"),
    [
        (Budget(gib=2), False, ("", 2 * GIB)),
        (Budget(gib=4, components={"activations": 1}), False, ("activations", GIB)),
        (Budget(gib=4, host_gib=1), False, None),
        (Budget(gib=2, gpu=CARD), False, ("", 2 * GIB)),
        # what the card can hold is what is missing, though the budget is less
        (Budget(gib=2, gpu=CARD), True, ("", find_gpu(CARD).usable_bytes)),
    ],
)
def test_the_total_comes_before_components(budget, ran_out, excess):
    found = excess_of(budget, report(activations=3 * GIB), ran_out=ran_out)

    assert (found and (found.of, found.limit_bytes)) == excess


def test_what_is_missing_is_that_of_the_component():
    held = report(activations=3 * GIB, parameters=5 * GIB)

    assert part("activations", GIB, held).excess_bytes == 2 * GIB
    assert part("", GIB, held).excess_bytes == 7 * GIB
    assert part("", GIB, held).bytes_in(report(inputs=4)) == 4


@pytest.mark.parametrize(
    ("figures", "missing", "listed"),
    [
        ({"small": 950, "large": 400, "middle": 900}, 200, ["large", "middle", "small"]),
        ({"counts": 998, "does not": 999}, 200, ["counts"]),  # a hundredth of what is missing is 2
        ({"same": 1000, "more": 1100}, 0, []),
    ],
)
def test_the_largest_saving_comes_first_and_what_saves_next_to_nothing_is_left_out(figures, missing, listed):
    assert [*savings_first(figures, 1000, missing)] == listed


def test_the_json_is_read_again():
    advice = Advice(1000, 800, {"AdamW(..., fused=True)": 700, "half the batch": None})

    assert Advice.from_json(advice.to_json(), checked=True) == advice
    assert (advice.tried, advice.untried) == ({"AdamW(..., fused=True)": 700}, ["half the batch"])


# Which changes are tried: those that can save enough of what is missing


def tried(limit, fixtures=(), component="", **components):
    found = worth_trying(part(component, limit, report(**components)), fixtures)
    return [change.name for change in found]


def test_each_change_is_one_that_the_worker_can_make():
    assert sorted(change.name for change in CHANGES) == sorted(APPLY)


@pytest.mark.parametrize(
    ("held", "names"),
    [
        ({"activations": 900}, ["chunked_cross_entropy", "checkpointing"]),
        ({"optimizer_states": 900}, ["eight_bit_states"]),
        ({"gradients": 900}, ["step_in_backward"]),
        (
            {"optimizer_states": 1, "temporaries": 900, "gradients": 1},
            ["chunked_cross_entropy", "fused", "single_tensor", "step_in_backward"],
        ),
        # 901 bytes are missing: 10 of them are more than a hundredth, 9 are not
        ({"activations": 10, "buffers": 890}, ["chunked_cross_entropy", "checkpointing"]),
        ({"activations": 9, "buffers": 891}, []),
    ],
)
def test_what_can_lower_what_is_held_at_the_peak_is_tried(held, names):
    assert tried(100, parameters=101, **held) == names


def test_without_parameters_there_is_nothing_to_checkpoint_and_no_head():
    assert tried(100, activations=900, temporaries=900) == []


def test_half_the_batch_is_tried_where_the_test_has_its_size():
    assert tried(100, ["tmp_path"], inputs=900) == []
    assert tried(100, ["tmp_path", "batch_size"], inputs=900) == ["half_batch"]


def test_a_component_over_its_own_budget_is_lowered_by_what_lowers_that_component():
    held = {"parameters": 500, "activations": 300, "gradients": 500, "optimizer_states": 500}

    assert tried(100, component="gradients", **held) == ["step_in_backward"]
