"""What explains a change, in words: each figure with what it is the figure of."""

import pytest

from pytest_membudget.memory_report import Holder
from pytest_membudget.reporting.causes import cause_text, changes_text
from pytest_membudget.results.comparison import Comparison, Finding, MovedPeak, MovedSide

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            Finding(64 * MIB, "activations", "blocks.*", "m.py:9", "m.py:7", "aten::mm"),
            "+64.0 MiB activations of blocks.* at m.py:9 (was m.py:7) (aten::mm)",
        ),
        (
            Finding(3 * GIB, "activations", None, "m.py:9", count=37, largest_bytes=788 * MIB),
            "+3.00 GiB activations in 37 lines, the largest +0.77 GiB at m.py:9",
        ),
        (Finding(-64 * MIB, "workspaces", None, None, "m.py:7"), "-64.0 MiB workspaces no longer at m.py:7"),
        (Finding(9 * MIB, "activations", "elsewhere"), "+9.0 MiB activations outside the largest holders"),
        (Finding(9 * MIB, "rounding", "elsewhere"), "+9.0 MiB rounding"),
        (Finding(9 * MIB, "others", "elsewhere"), "+9.0 MiB in smaller changes"),
    ],
    ids=["a line", "many lines", "a line that is gone", "no line", "rounding", "the rest"],
)
def test_a_cause_is_named_with_its_line(finding, said):
    assert cause_text(finding, str) == said


@pytest.mark.parametrize(
    ("count", "largest_bytes", "said"),
    [
        (1, None, "0.75 GiB parameters at m.py:9"),
        (3, 256 * MIB, "3 x 0.25 GiB = 0.75 GiB parameters at m.py:9"),
        (3, 512 * MIB, "0.75 GiB parameters x3 at m.py:9"),
        (3, None, "0.75 GiB parameters x3 at m.py:9"),
    ],
)
def test_several_storages_are_a_product_where_all_are_of_one_size(count, largest_bytes, said):
    holder = Holder(768 * MIB, count, "parameters", None, "m.py:9", largest_bytes=largest_bytes)

    assert cause_text(holder, str) == said


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.5, "grew with them: a larger batch or longer sequence."),
        (0.25, "shrank with them: a smaller batch or shorter sequence."),
    ],
)
def test_larger_inputs_are_said(factor, said):
    assert changes_text(Comparison("grown", factors={"inputs": factor})) == (
        f"Inputs are {factor} times as large, and what is computed from them {said}"
    )


@pytest.mark.parametrize(("factor", "more"), [(1.305, "more"), (0.766, "fewer")])
def test_larger_activations_of_the_same_inputs_are_said(factor, more):
    assert changes_text(Comparison("grown", factors={"activations": factor})) == (
        f"Activations are {factor:.3g} times as large throughout, and inputs are not: {more} tokens or "
        "patches of each sample, or another dtype."
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [("a", "`a` (-0.5 MiB)."), ("abcde", "`a` (-0.5 MiB), `b` (-0.5 MiB), `c` (-0.5 MiB) and 2 more.")],
)
def test_parameters_of_another_size_are_named(names, said):
    resized = tuple(Finding(-MIB // 2, "parameters", name) for name in names)
    found = changes_text(
        Comparison("grown", factors={"activations": 1.305}, resized=resized), lambda text: f"`{text}`"
    )
    assert found.endswith(f"or another dtype. Of another size: {said}")


def test_a_peak_in_another_phase_is_said():
    moved = MovedPeak("optimizer", MovedSide("optimizer", 801 * MIB), MovedSide("forward", 738 * MIB))
    assert changes_text(Comparison("grown", moved_peak=moved, factors={"inputs": 1.5})).startswith(
        "The peak is in the optimizer's step, at the base in the forward: the rows compare the "
        "optimizer's step, which took 0.72 GiB and takes 0.78 GiB. Inputs are 1.5 times"
    )


def test_who_called_a_line_is_said_where_others_have_too():
    details = "loss = model(x)", "train.py:20"
    held = Holder(64 * MIB, 1, "activations", "up", "m.py:9", "aten::mm", details=details)
    grown = Finding(64 * MIB, "activations", "up", "m.py:9", "m.py:7", "aten::mm", details=details)

    assert cause_text(held, str) == "64.0 MiB activations of up at m.py:9, called at train.py:20 (aten::mm)"
    assert cause_text(grown, str) == (
        "+64.0 MiB activations of up at m.py:9, called at train.py:20 (was m.py:7) (aten::mm)"
    )


def test_a_checkpoint_that_is_gone_is_said():
    assert changes_text(Comparison("grown", removed=("recompute",))) == (
        "At the base modules ran again in the backward (activation checkpointing), and now none does."
    )


def test_without_larger_inputs_nothing_is_said_of_them():
    assert changes_text(Comparison("grown")) == ""
