"""The order in which a pass makes and frees tensors, by hand."""

from pytest_membudget.formulas.replay.script import PRODUCT, backward_script, forward_script, held_by
from pytest_membudget.formulas.tape import Operator, Tape, Tensor

#: y = act(x @ w): the product saves x, the activation its input.
MM = Operator("mm", ("x",), (Tensor("p", 20),), saves=("x",), weights=(Tensor("w", 7),))
ACTIVATION = Operator("act", ("p",), (Tensor("y", 20),), saves=("p",), backward_scratch_bytes=5)
TAPE = Tape((Tensor("x", 10),), (MM, ACTIVATION), ("y",))


def test_a_forward_makes_what_it_has_not_and_hands_its_output_over():
    assert forward_script(TAPE, None, ()).events == (("p", 20), ("y", 20))
    assert held_by(TAPE, None) == {"x", "p"}


def test_a_checkpointed_forward_frees_what_it_does_not_keep():
    assert forward_script(TAPE, ("x",), ()).events == (("p", 20), ("y", 20), ("p", 0))
    assert held_by(TAPE, ("x",)) == {"x"}


def test_what_lasts_longer_than_its_forward_is_not_freed():
    assert forward_script(TAPE, ("x",), ("p",)).events == (("p", 20), ("y", 20))


def test_a_backward_in_order():
    """An expression's temporary comes before its result; what was saved goes when its gradient is there.

    A weight's gradient that stays is not freed and made again.
    """
    script = backward_script(TAPE, None, "kept")

    assert script.events == (
        (" before 0", 5),
        ("p.grad", 20),
        (" before 0", 0),
        ("y.grad", 0),
        ("p", 0),
        ("x.grad", 10),
        ("w.grad", 7),
        ("p.grad", 0),
        ("x", 0),
    )
    assert dict(script.left) == {"x.grad": "temporaries", "w.grad": "gradients"}


def test_a_weights_gradient_that_is_added_to_another_goes():
    assert backward_script(TAPE, None, "added").events[-1] == ("w.grad", 0)


def test_a_checkpointed_backward_makes_again_what_it_needs():
    """x and y's gradient are there; the activation saves its input and is not run again."""
    events = backward_script(TAPE, ("x",), "kept").events

    assert events[0] == ("p", 20)
    assert ("y", 20) not in events


def test_tensors_of_a_kernel_come_one_by_one():
    """Two before the result, a kernel's two behind it, and what it takes to sum the gradient up."""
    operator = Operator(
        "mul",
        ("x",),
        (Tensor("y", 20),),
        backward_scratch_bytes=5,
        backward_kernel_bytes=9,
        backward_sum_bytes=4,
        backward_parts=((3, 2), (8, 1), ()),
    )
    events = backward_script(Tape((Tensor("x", 10),), (operator,), ("y",)), None, "kept").events

    assert events == (
        (" before 0", 3),
        (" before 1", 2),
        ("x.grad", 10),
        (" kernel 0", 8),
        (" kernel 1", 1),
        (" kernel 0", 0),
        (" kernel 1", 0),
        (" sum 0", 4),
        (" sum 0", 0),
        (" before 0", 0),
        (" before 1", 0),
        ("y.grad", 0),
    )


def product(**more):
    operator = Operator(
        "mm",
        ("x",),
        (Tensor("p", 20),),
        saves=("x",),
        weights=(Tensor("w", 7),),
        gives_views=True,
        **more,
    )
    return Tape((Tensor("x", 10),), (operator,), ("p",))


def test_a_product_wants_its_workspace_behind_its_result():
    assert forward_script(product(), None, ()).events == (("p", 20), PRODUCT)


def test_a_product_without_a_bias_makes_its_weights_gradient_first():
    """``mm``'s formulas are run in alphabetical order: ``mat2``, then ``self``."""
    with_bias = backward_script(product(), None, "kept").events
    without = backward_script(product(weights_first=True), None, "kept").events

    assert with_bias[:3] == (("x.grad", 10), PRODUCT, ("w.grad", 7))
    assert without[:3] == (("w.grad", 7), PRODUCT, ("x.grad", 10))


def test_a_checkpointed_products_workspace_comes_when_it_is_made_again():
    activation = Operator("act", ("p",), (Tensor("y", 20),), saves=("p",))
    tape = Tape((Tensor("x", 10),), (*product().operators, activation), ("y",))

    assert backward_script(tape, ("x",), "kept").events[:2] == (("p", 20), PRODUCT)
