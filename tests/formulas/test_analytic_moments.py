"""Steps put together from tapes, against hand arithmetic."""

from pytest_membudget.components import GRADIENTS, OPTIMIZER_STATES, PARAMETERS, TEMPORARIES
from pytest_membudget.formulas.moments import Block, Step, moments_of, peak_of
from pytest_membudget.formulas.tape import Operator, Tape, Tensor
from pytest_membudget.formulas.terms import Term, by_component


def linear(weight):
    """x (10) -> y (10): x is saved."""
    operator = Operator("mm", ("x",), (Tensor("y", 10),), saves=("x",), weights=(Tensor("w", weight),))
    return Tape((Tensor("x", 10),), (operator,), ("y",))


def by_name(step):
    return {moment.name: moment.bytes for moment in moments_of(step)}


STATIC = (Term(PARAMETERS, "w", 300), Term(OPTIMIZER_STATES, "exp_avg", 300))


def test_a_step_of_three_layers():
    """Weights 100 each. Forward of the third: 600 + 3 x 10 saved + y 10.

    Backward of the last: 600, three saved, dy 10, dx 10, its gradient 100; of the first: one saved, 300.
    The optimizer's step: 600 + 300 gradients + 50.
    """
    step = Step(
        STATIC, (Block("layers", linear(100), 3),), optimizer_temporaries=(Term(TEMPORARIES, "t", 50),)
    )

    assert by_name(step) == {
        "start": 600,
        "forward of layers": 640,
        "backward of layers (last)": 600 + 30 + 20 + 100,
        "backward of layers (first)": 600 + 10 + 20 + 300,
        "end of backward": 900,
        "optimizer step": 950,
    }
    assert peak_of(moments_of(step)).name == "optimizer step"
    assert by_component(peak_of(moments_of(step)).terms)[GRADIENTS] == 300


def test_gradients_that_are_freed_at_once():
    """One weight's gradient at a time, and none at the end."""
    step = Step(STATIC, (Block("layers", linear(100), 3),), gradients="freed")

    assert by_name(step)["backward of layers (last)"] == 600 + 30 + 20 + 100
    assert by_name(step)["backward of layers (first)"] == 600 + 10 + 20 + 100
    assert by_name(step)["optimizer step"] == 600
