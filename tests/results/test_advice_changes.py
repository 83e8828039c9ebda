"""Which changes are tried for a test over its budget: those that can save enough of what is missing."""

import pytest

from pytest_membudget.components import METRICS
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.advice import CHANGES, Excess, worth_trying
from pytest_membudget.worker.server.changes.table import APPLY


def report(**components):
    total = sum(components.values())
    return MemoryReport("traced", "allocated", dict.fromkeys(METRICS, total), components)


def tried(limit, fixtures=(), component=None, **components):
    found = worth_trying(report(**components), Excess(component, limit), fixtures)
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
