"""Which layers and which of their tensors checkpoints hold, by mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...components import ACTIVATIONS
from ..job import Checkpointing
from ..moments import Block
from ..tape import Tape
from ..terms import Term

#: Which tensors of a tape a per-operator policy keeps.
Keeps = Callable[[Tape], tuple[str, ...]]


def checkpointed(
    block: Block, mode: Checkpointing, first: int, keeps: Keeps | None = None
) -> Iterator[Block]:
    """``block``, layers of a stack of which it is number ``first`` (from 0) and on, as ``mode`` has them.

    With ``every``, layer ``every``, ``2 * every`` and so on (counted from 1) are checkpointed, as
    torchtitan's ``_apply_layer_sac`` does (torchtitan/distributed/activation_checkpoint.py, cfb93265).
    """
    inputs = tuple(tensor.name for tensor in block.tape.inputs if tensor.bytes)
    if mode.mode == "none":
        yield block
        return
    for made in _held(block, mode, first, inputs, keeps):
        yield made if made.checkpoint is None else replace(made, until_loss=cached_weights(made.tape))


def cached_weights(tape: Tape) -> tuple[Term, ...]:
    """Autocast's copies of trained weights: it caches them until it ends, saved or not."""
    copies = (operator for operator in tape.operators if operator.weights and not operator.reads)
    made = (tensor for operator in copies for tensor in operator.makes if tensor.view_of is None)
    return tuple(Term(ACTIVATIONS, tensor.name, tensor.bytes, tensor.formula) for tensor in made)


def _held(
    block: Block, mode: Checkpointing, first: int, inputs: tuple[str, ...], keeps: Keeps | None
) -> Iterator[Block]:
    if mode.mode == "per_operator" and keeps is not None:
        yield replace(block, checkpoint=(*inputs, *keeps(block.tape)))
    elif mode.every <= 1:
        yield replace(block, checkpoint=inputs)
    else:
        yield from _every(block, mode.every, first, inputs)


def _every(block: Block, every: int, first: int, inputs: tuple[str, ...]) -> Iterator[Block]:
    """Some checkpointed, some not: the last few layers one by one, those before them as two groups."""
    held = [(first + number + 1) % every == 0 for number in range(block.count)]
    apart = min(block.count, every)
    before = held[: block.count - apart]
    for is_held in (False, True):
        count = before.count(is_held)
        if count:
            yield replace(block, count=count, checkpoint=inputs if is_held else None)
    for is_held in held[block.count - apart :]:
        yield replace(block, count=1, checkpoint=inputs if is_held else None)
