"""Which moment is compared where the peak has moved to another phase of the step."""

from dataclasses import replace

import pytest

from pytest_membudget.comparison.findings import explained
from pytest_membudget.comparison.matching import moved_peak, same_phase
from pytest_membudget.memory_report import PhasePeak
from pytest_membudget.results.comparison import GROWN, Comparison, RunDifference

MIB = 2**20


@pytest.fixture
def step(figure):
    """A figure of a step from the holders of its phases."""

    def made(**phases):
        figures = {phase: figure(*held) for phase, held in phases.items()}
        name, largest = max(figures.items(), key=lambda one: one[1].peak_bytes)
        others = tuple(
            PhasePeak(phase, one.peak_bytes, one.components, one.holders)
            for phase, one in figures.items()
            if phase != name
        )
        return replace(largest, phase=name, phases=others)

    return made


def loss(hold, line, size, operator, component="activations", phase="forward"):
    source = {"model.py:4": "logits = logits.float()", "model.py:5": "return cross_entropy(logits, labels)"}
    text = source.get(line, "loss.backward()")
    return hold(size * MIB, component, None, line, operator=operator, source=text, phase=phase)


def step_of(hold, step, size, *forward):
    """A loss over logits of ``size`` MiB: its result is kept, its backward takes twice as much again."""
    kept = loss(hold, "model.py:5", size, "aten::_log_softmax")
    backward = [
        loss(hold, "train.py:9", size, operator, "temporaries", "backward")
        for operator in ("aten::nll_loss_backward", "aten::_log_softmax_backward_data")
    ]
    return step(forward=[kept, *forward], backward=[kept, *backward])


def test_a_loss_in_fp32_is_the_cause_though_the_peak_moves_to_the_backward(hold, step):
    """With 64 MiB of logits in bf16 208 MiB in forward, 3 x 64 in backward; in fp32 3 x 128 in backward."""
    copy = loss(hold, "model.py:4", 64, "aten::clone")
    logits = hold(80 * MIB, module="head", location="model.py:3")
    base, head = step_of(hold, step, 64, copy, logits), step_of(hold, step, 128)
    rows = explained(Comparison(GROWN), head, base).findings

    assert (base.phase, head.phase) == ("forward", "backward")
    assert [(row.bytes // MIB, row.component, row.location) for row in rows] == [
        (64, "activations", "model.py:5"),
        (64, "temporaries", "train.py:9"),
        (64, "temporaries", "train.py:9"),
    ]
    assert moved_peak(head, base) == (
        RunDifference("peak", "backward", "forward"),
        RunDifference("compared", "0.38 GiB", "0.19 GiB", ("backward",)),
    )


def test_what_has_shrunk_is_compared_in_the_phase_that_was_the_larger(hold, step):
    logits = hold(80 * MIB, module="head", location="model.py:3")
    head, base = step_of(hold, step, 64, logits), step_of(hold, step, 128)

    assert [row.bytes // MIB for row in explained(Comparison(GROWN), head, base).findings] == [-64, -64, -64]
    assert moved_peak(head, base) == ()  # 64 + 80 MiB in forward, 192 in backward
    larger = hold(64 * MIB, module="head", location="model.py:2")
    head = step_of(hold, step, 64, logits, larger)  # 208 in forward
    assert moved_peak(head, base) == (
        RunDifference("peak", "forward", "backward"),
        RunDifference("compared", "0.19 GiB", "0.38 GiB", ("backward",)),
    )


def test_peaks_of_one_phase_are_compared_as_they_are(hold, step):
    head, base = step_of(hold, step, 128), step_of(hold, step, 64)

    assert same_phase(head, base) == (head, base)
    assert moved_peak(head, base) == ()


def test_reports_that_do_not_know_the_phase_are_compared_by_their_peaks(hold, step):
    head = step_of(hold, step, 128)
    for unknown in ({"phase": "", "phases": ()}, {"phase": "forward", "phases": ()}):
        base = replace(step_of(hold, step, 64), **unknown)
        assert same_phase(head, base) == (head, base)
        assert moved_peak(head, base) == ()
