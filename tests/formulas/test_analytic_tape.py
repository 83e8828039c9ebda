"""Tapes against hand arithmetic by the rules of autograd."""

from pytest_membudget.components import ACTIVATIONS, GRADIENTS, TEMPORARIES
from pytest_membudget.formulas.tape import Operator, Tape, Tensor, backward, forward, recomputed_backward


def total(terms, component=None):
    return sum(term.bytes for term in terms if component in (None, term.component))


def feed_forward():
    """x (10) -> up (40), saves x -> relu (40), saves its result -> down (10), saves that; y = x + down."""
    return Tape(
        (Tensor("x", 10),),
        (
            Operator("up", ("x",), (Tensor("a", 40),), saves=("x",), weights=(Tensor("up.weight", 400),)),
            Operator("relu", ("a",), (Tensor("r", 40),), saves=("r",)),
            Operator("down", ("r",), (Tensor("d", 10),), saves=("r",), weights=(Tensor("down.weight", 400),)),
            Operator("add", ("x", "d"), (Tensor("y", 10),), hands_on=True),
        ),
        ("y",),
    )


def test_forward_keeps_what_is_saved():
    """x and r stay; while relu runs x, a and r are there: 90, of which a is a temporary."""
    found = forward(feed_forward())

    assert total(found.end) == total(found.end, ACTIVATIONS) == 10 + 40
    assert total(found.peak) == 90
    assert total(found.peak, TEMPORARIES) == 40


def test_backward():
    """y's gradient (10) is handed on to x and d. down's backward: x 10, r 40, dy 10, dr 40, weight 400 = 500.

    relu's: x 10, r 40, dy 10, dr 40, da 40, weight of down 400 = 540; then r and dr go.
    up's: x 10, dy 10 (x's), da 40, dx 10, weights 800 = 870. Left: x's gradient and the weights'.
    """
    found = backward(feed_forward())

    assert total(found.peak) == 870
    assert total(found.end, GRADIENTS) == 800
    assert total(found.end, TEMPORARIES) == 10
    assert total(found.end) == 810


def test_a_checkpoint_runs_forward_again():
    """From x: r comes back while dy waits (x, dy, a, r: 100); then backward is as ever."""
    tape = feed_forward()
    held = forward(tape, saves=False, kept=("x",))
    found = recomputed_backward(tape, ("x",), "added")

    assert total(held.end) == 10
    assert total(found.peak) == 500
    assert total(found.end) == 10


def test_views_share_their_storage_and_have_gradients_of_their_own():
    """qkv (30) in three views; its gradient is put together from theirs: dq, dk, dv and dqkv are 60.

    attention's backward makes 30 from the output's gradient (10) and what is saved (30 + 10): 80;
    then the split's has dq, dk, dv, dqkv and, as qkv was freed with attention's, no more.
    """
    views = tuple(Tensor(name, 10, view_of="qkv") for name in "qkv"[:1] + "kv")
    tape = Tape(
        (Tensor("x", 10),),
        (
            Operator("project", ("x",), (Tensor("qkv", 30),), saves=("x",)),
            Operator("split", ("qkv",), views),
            Operator("attention", ("q", "k", "v"), (Tensor("o", 10),), saves=("q", "k", "v", "o")),
        ),
        ("o",),
    )

    found = backward(tape)

    assert total(forward(tape).end) == 10 + 30 + 10
    assert total(found.peak) == 10 + 30 + 10 + 10 + 30  # x, qkv, o, do; dq, dk, dv
    assert total(found.end) == 10


def test_scratch_counts_while_its_operator_runs():
    tape = Tape(
        (Tensor("x", 10, needs_grad=False),),
        (Operator("sum", ("x",), (Tensor("y", 1),), forward_scratch_bytes=100, backward_scratch_bytes=7),),
        ("y",),
    )

    assert total(forward(tape).peak) == 111
    assert total(backward(tape).peak) == 1 + 7


def test_what_a_fused_loss_has_kept_is_its_gradients():
    """Kept 10 and 100 in forward; in backward they are the gradients and not there beside them."""
    kept = (Tensor("x gradient", 10), Tensor("weight gradient", 100))
    loss = Operator(
        "loss", ("x",), (Tensor("y", 1),), keeps=kept, weights=(Tensor("weight", 100),), gives_kept=True
    )
    tape = Tape((Tensor("x", 10),), (loss,), ("y",))

    assert total(forward(tape).end) == 110
    assert total(backward(tape).peak) == 111
    assert total(backward(tape).end, GRADIENTS) == 100
