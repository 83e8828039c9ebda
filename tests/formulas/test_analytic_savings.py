"""The most that each knob can save of a traced peak."""

from pytest_membudget.components import COMPONENTS
from pytest_membudget.formulas.savings import savings_of
from pytest_membudget.memory_report import Holder, MemoryReport, PeakBytes


def holder(component, size, operator="aten::mm", count=1):
    return Holder(size, count, component, None, None, operator)


def report(holders, **sizes):
    components = {**dict.fromkeys(COMPONENTS, 0), **sizes}
    return MemoryReport("traced", "allocated", PeakBytes(0, 0, 0, 0), components, tuple(holders))


def test_a_step_of_adamw():
    """States of 2 bytes an element become 1 + 1/64: 492 of 1,000 go. The largest gradient is 100 of 500."""
    traced = report(
        [
            holder("gradients", 300, count=3),
            holder("gradients", 200, count=4),
            holder("temporaries", 500, "aten::_foreach_sqrt"),
            holder("temporaries", 20),
        ],
        parameters=500,
        gradients=500,
        optimizer_states=1000,
        temporaries=520,
        activations=80,
        inputs=20,
    )

    assert [(saving.name, saving.bytes) for saving in savings_of(traced)] == [
        ("fused=True, or foreach=False", 500),
        ("8-bit optimizer states", 492),
        ("optimizer step in backward", 400),
        ("half the micro-batch, accumulated twice", 50),
        ("full activation checkpointing", 80),
        ("twice the GPUs, with FSDP2", 1000),
        ("CPU offload of optimizer states", 1000),
    ]


def test_inference_has_none_of_trainings_knobs():
    assert savings_of(report([], parameters=500, activations=80)) == ()
