"""A block of a model as a list of operators, and what autograd makes of it: saved, working, freed.

A tape says what one layer (or a loss head) does, operator by operator, with tensors that have names, bytes
and formulas. From it follow, by the rules of PyTorch's autograd, what its forward leaves for backward, how
much more it takes meanwhile, and the same of its backward. Nothing is run; a layer's tape is some thirty
operators long, and all identical layers share it.

Rules (torch/csrc/autograd of 2.13):

- what an operator saves stays until its backward; what it does not dies after its last reader;
- backward runs in the opposite order; it makes a gradient for each input that needs one, hands the incoming
  gradient on where the operator is an addition or a view, and adds up in place where two gradients meet;
- the gradient of a weight is made by the backward of the operator that uses it.

Passes are written so that they can be put one after the other: a forward begins with the tape's inputs there
and ends with what is saved (its outputs are the next tape's inputs); a backward begins with what is
saved and the outputs' gradients, and ends with the inputs' gradients and those of weights.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..components import TEMPORARIES
from .tape_backward import Backward, gradient_name
from .tape_live import Live, Pass
from .tape_shapes import Gradients, Operator, Tape, Tensor

__all__ = [
    "Gradients",
    "Operator",
    "Pass",
    "Tape",
    "Tensor",
    "backward",
    "before_backward",
    "forward",
    "incoming_names",
    "recomputed_backward",
]


def forward(
    tape: Tape,
    *,
    saves: bool = True,
    kept: Collection[str] = (),
    live: Live | None = None,
    hands_over: bool = False,
) -> Pass:
    """Run ``tape`` forward; without ``saves`` as under ``no_grad``, leaving ``kept`` alone.

    ``kept`` names tensors that stay in any case: what a checkpoint holds on to. ``live``: what watches the
    pass, with nothing in it yet. ``hands_over``: the outputs stay too, saved or not.
    """
    live = live or Live()
    stays = {tensor.name for tensor in (tape.saved(kept) if saves else map(tape.tensor, kept))}
    for tensor in tape.inputs:
        live.take(tensor, tensor.component if tensor.name in stays else TEMPORARIES)
    _run_forward(tape, live, stays, saves=saves)
    for name in () if hands_over else tape.outputs:
        if tape.tensor(name).name not in stays:
            live.drop(tape.tensor(name).name)
    return live.result()


def before_backward(tape: Tape, live: Live) -> None:
    """Run ``tape`` forward in ``live``, and put its outputs' gradients there: a backward can follow."""
    stays = {tensor.name for tensor in tape.saved()}
    for tensor in tape.inputs:
        live.take(tensor, tensor.component)
    _run_forward(tape, live, stays, saves=True)
    for name in tape.outputs:
        if tape.tensor(name).name not in stays:
            live.drop(tape.tensor(name).name)
    _take_incoming(tape, live)


def _run_forward(
    tape: Tape, live: Live, stays: Collection[str], *, saves: bool, done: Collection[str] = ()
) -> None:
    """Forward over what is alive; ``done`` names tensors that are there already and are not made again."""
    outputs = {tape.tensor(name).name for name in tape.outputs}
    live.mark()
    for operator, ending in zip(tape.operators, tape.endings, strict=True):
        made = (*operator.makes, *(kept for kept in operator.keeps if saves or kept.name in stays))
        for tensor in made:
            if tensor.view_of is None and tensor.name not in done:
                live.take(tensor, tensor.component if tensor.name in stays else TEMPORARIES)
        live.mark(operator.forward_scratch_bytes, operator.forward_kernel_bytes, operator.name)
        for root in ending:
            if root not in stays and root not in outputs:
                live.drop(root)


def backward(tape: Tape, gradients: Gradients = "kept", *, live: Live | None = None) -> Pass:
    """Run ``tape`` backward after a forward that saved."""
    live = live or Live()
    for tensor in tape.saved():
        live.take(tensor, tensor.component)
    _take_incoming(tape, live)
    Backward(tape, live, gradients).run()
    return live.result()


def recomputed_backward(
    tape: Tape, kept: Collection[str], gradients: Gradients = "kept", *, live: Live | None = None
) -> Pass:
    """Backward of a checkpointed block: forward again from ``kept``, what the checkpoint held, then backward.

    What the checkpoint held is not made again; operators that only make what nothing saves and that come
    after the last that saves are not run again (``torch.utils.checkpoint`` stops early).
    """
    live = live or Live()
    held = [tape.tensor(name) for name in kept]
    for tensor in held:
        live.take(tensor, tensor.component)
    _take_incoming(tape, live)
    inputs = {tensor.name for tensor in tape.inputs}
    stays = {tensor.name for tensor in tape.saved([name for name in kept if name in inputs])}
    for tensor in tape.inputs:
        live.take(tensor, tensor.component)
    part = _until_last_save(tape)
    _run_forward(part, live, stays, saves=True, done={tensor.name for tensor in held})
    for name in part.outputs:
        if name not in stays:
            live.drop(name)
    Backward(tape, live, gradients, is_checkpointed=True).run()
    return live.result()


def _until_last_save(tape: Tape) -> Tape:
    last = max(
        (n for n, operator in enumerate(tape.operators) if operator.saves or operator.keeps), default=-1
    )
    operators = list(tape.operators[: last + 1])
    if operators:  # it saves what it reads before it runs, and is not run then
        final = operators[-1]
        made = tuple(tensor for tensor in final.makes if tensor.name in final.saves)
        operators[-1] = replace(final, makes=made)
    return Tape(tape.inputs, tuple(operators), ())


def incoming_names(tape: Tape) -> list[str]:
    """What the gradients of its outputs are called."""
    return [gradient_name(name) for name in tape.outputs]


def _take_incoming(tape: Tape, live: Live) -> None:
    for name in tape.outputs:
        live.take(tape.named(name), TEMPORARIES, gradient_name(name))
