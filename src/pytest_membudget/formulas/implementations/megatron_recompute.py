"""Which layers of a stage Megatron-core recomputes whole, and in what pieces.

``_checkpointed_forward`` of megatron/core/transformer/transformer_block.py,
NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553.
"""

from __future__ import annotations

from dataclasses import replace

from ...components import ACTIVATIONS
from ..model import Layer
from ..moments import Block
from ..tape import Operator, Tape, Tensor
from ..terms import Term
from .megatron_layer import layer_tape
from .megatron_sizes import MegatronSizes

_Groups = tuple[tuple[Layer, int], ...]


def layer_blocks(sizes: MegatronSizes, groups: _Groups) -> list[Block]:
    """The layers of a model chunk as blocks.

    ``uniform`` checkpoints pieces of ``recompute-num-layers`` layers, ``block`` each of the first so many and
    no other; selective recompute is inside the layers.
    """
    how = sizes.job.checkpointing
    tapes = {layer: layer_tape(sizes, layer) for layer, _ in groups}
    if how.mode != "full":
        return [_plain(number, tapes[layer], count) for number, (layer, count) in enumerate(groups)]
    if not how.is_by_block:
        return [
            block
            for number, (layer, count) in enumerate(groups)
            for block in _uniform(sizes, number, tapes[layer], count)
        ]
    found: list[Block] = []
    left = how.layers or 0
    for number, (layer, count) in enumerate(groups):
        checkpointed = min(left, count)
        left -= checkpointed
        if checkpointed:
            found.append(_checkpointed(sizes, f"recomputed layers {number}", tapes[layer], checkpointed))
        if count > checkpointed:
            found.append(_plain(number, tapes[layer], count - checkpointed))
    return found


def _plain(number: int, tape: Tape, count: int) -> Block:
    return Block(f"layers {number}" if number else "layers", tape, count)


def _uniform(sizes: MegatronSizes, number: int, tape: Tape, count: int) -> list[Block]:
    piece = sizes.job.checkpointing.layers or 1
    pieces, rest = divmod(count, piece)
    name = f"recomputed layers {number}"
    found = [_checkpointed(sizes, name, repeated(tape, piece), pieces)] if pieces else []
    if rest:
        found.append(_checkpointed(sizes, f"{name} (rest)", repeated(tape, rest), 1))
    return found


def _checkpointed(sizes: MegatronSizes, name: str, tape: Tape, count: int) -> Block:
    """It keeps its input: all of it, or this rank's part (``distribute_saved_activations``)."""
    if not sizes.options.distribute_saved_activations or sizes.is_sequence_parallel:
        return Block(name, tape, count, ("x",))
    part = -(-sizes.bytes(sizes.rows, sizes.hidden) // sizes.tensor)
    kept = Term(
        ACTIVATIONS, "part of a layer's input", part, "s*b*h/t*2", "megatron/core/tensor_parallel/random.py"
    )
    return Block(name, tape, count, (), stays=(kept,))


def repeated(tape: Tape, count: int, first_read: str = "x") -> Tape:
    """``count`` identical layers one after the other as one tape, from ``first_read`` to its last output."""
    if count == 1 and first_read == "x":
        return tape
    operators: list[Operator] = []
    read = first_read
    for number in range(count):
        names = {"x": read}
        for operator in tape.operators:
            operators.append(_renamed(operator, number, names))
        read = names[tape.outputs[0]]
    return Tape(tape.inputs, tuple(operators), (read,))


def _renamed(operator: Operator, number: int, names: dict[str, str]) -> Operator:
    for tensor in (*operator.makes, *operator.keeps):
        names[tensor.name] = f"{tensor.name}#{number}"
    return replace(
        operator,
        name=f"{operator.name}#{number}",
        reads=tuple(names[name] for name in operator.reads),
        saves=tuple(names[name] for name in operator.saves),
        makes=tuple(_tensor(tensor, names) for tensor in operator.makes),
        keeps=tuple(_tensor(tensor, names) for tensor in operator.keeps),
        weights=tuple(replace(tensor, name=f"{tensor.name}#{number}") for tensor in operator.weights),
    )


def _tensor(tensor: Tensor, names: dict[str, str]) -> Tensor:
    view = None if tensor.view_of is None else names[tensor.view_of]
    return replace(tensor, name=names[tensor.name], view_of=view)
