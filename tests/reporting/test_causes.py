"""What explains a change, in words: each figure with what it is the figure of."""

import pytest

from pytest_membudget.reporting.causes import cause_text, changes_text
from pytest_membudget.results.comparison import Comparison, Finding, MovedPeak

MIB = 2**20
GIB = 2**30


def text(*given, **more):
    return cause_text(Finding(*given, **more), str)


def test_growth_of_one_line_is_named_with_it():
    assert text(64 * MIB, "activations", "blocks.*", "m.py:9", "m.py:7", "aten::mm") == (
        "+64.0 MiB activations of blocks.* at m.py:9 (was m.py:7) (aten::mm)"
    )


def test_growth_over_many_lines_is_the_components_and_the_largest_line_has_its_own():
    assert text(3 * GIB, "activations", None, "m.py:9", lines=37, largest_bytes=788 * MIB) == (
        "+3.00 GiB activations in 37 lines, the largest +0.77 GiB at m.py:9"
    )


def test_a_line_that_is_gone_is_named_as_gone():
    assert text(-64 * MIB, "workspaces", None, None, "m.py:7") == "-64.0 MiB workspaces no longer at m.py:7"


def test_what_no_holder_names_is_of_no_module_and_no_line():
    assert text(9 * MIB, "activations", "elsewhere") == "+9.0 MiB activations outside the largest holders"
    assert text(9 * MIB, "rounding", "elsewhere") == "+9.0 MiB rounding"
    assert text(9 * MIB, "others", "elsewhere") == "+9.0 MiB in smaller changes"


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.5, "grew with them: a larger batch or longer sequence."),
        (0.25, "shrank with them: a smaller batch or shorter sequence."),
    ],
)
def test_larger_inputs_are_said(factor, said):
    assert changes_text(Comparison("grown", input_factor=factor)) == (
        f"Inputs are {factor} times as large, and what is computed from them {said}"
    )


@pytest.mark.parametrize(("factor", "more"), [(1.305, "more"), (0.766, "fewer")])
def test_larger_activations_of_the_same_inputs_are_said(factor, more):
    assert changes_text(Comparison("grown", activation_factor=factor)) == (
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
        Comparison("grown", activation_factor=1.305, resized=resized), lambda text: f"`{text}`"
    )
    assert found.endswith(f"or another dtype. Of another size: {said}")


def test_a_peak_in_another_phase_is_said():
    moved = MovedPeak("optimizer", "forward", "optimizer", 801 * MIB, 738 * MIB)
    assert changes_text(Comparison("grown", moved_peak=moved, input_factor=1.5)).startswith(
        "The peak is in the optimizer's step, at the base in the forward: the rows compare the "
        "optimizer's step, which took 0.72 GiB and takes 0.78 GiB. Inputs are 1.5 times"
    )


def test_without_larger_inputs_nothing_is_said_of_them():
    assert changes_text(Comparison("grown")) == ""
