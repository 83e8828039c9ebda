"""Transformers' models (5.23.0) as blocks: embedding, groups of alike layers, final norm and head and loss."""

from __future__ import annotations

from dataclasses import replace

from ...components import ACTIVATIONS
from ..moments import Block
from ..number_types import bytes_for
from ..stage import Stage
from ..terms import Term
from .decoders import layer_tape
from .heads import full_loss
from .linears import embedding, linear
from .norms import norm
from .operators import add, dropout, unary
from .recorder import Recorder, Value
from .setting import Setting, setting_of
from .styles import Style, style_of


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of one rank's stage, in forward order."""
    setting = setting_of(stage)
    style = style_of(stage.job.model.architecture)
    blocks: list[Block] = []
    if stage.has_embedding:
        blocks.append(_embedding(stage, setting, style))
    mode = stage.job.checkpointing.mode
    for number, (layer, count) in enumerate(stage.groups):
        tape = layer_tape(setting, layer, style)
        checkpoint = ("hidden_states",) if mode == "full" else None
        name = f"layers {number}" if number else "layers"
        blocks.append(Block(name, tape, count, checkpoint))
    if stage.has_head:
        blocks.append(_head(stage, setting, style))
    return tuple(blocks)


def _embedding(stage: Stage, setting: Setting, style: Style) -> Block:
    model = stage.job.model
    width = model.embedding_dim or model.hidden
    sizes = {"V": -(-model.vocab // setting.tensor_parallel), "i": width, "P": model.positions}
    r = Recorder(setting, **sizes)
    tokens = r.input("input_ids", "b s", "int64", trains=False)
    hidden = embedding(r, "embed_tokens", tokens, "V", "i" if width != model.hidden else "h", joins=model.tied)
    if model.scales_embedding:
        hidden = unary(r, "embed_tokens scaled", hidden)
    if width != model.hidden:
        hidden = linear(r, "project_in", hidden, "h", "i")
    if model.positions:
        hidden = _positions(r, hidden, by_sequence=style.scales_query)
    if model.embedding_norm is not None:
        hidden = norm(r, "embedding norm", hidden, model.embedding_norm, "h")
    hidden = dropout(r, "embedding dropout", hidden, model.embedding_dropout)
    return Block("embedding", r.tape(hidden), stays=(*_rotary_tables(stage, setting, style), *_arguments(stage, setting, style)))


def _positions(r: Recorder, hidden: Value, *, by_sequence: bool) -> Value:
    """Learned positions, the same for all sequences (their gradients are summed), or each its own (OPT)."""
    numbers = r.run("position_ids", (), "b s" if by_sequence else "s", "int64")
    table = embedding(r, "embed_positions", numbers, "P", "h", saves_rows=True)
    own = table if by_sequence else r.run("positions of all", (table,), "b s h", hidden.kind, view_of=table)
    result = add(r, "hidden_states", hidden, own)
    r.hold(hidden, table)
    return result


def _rotary_tables(stage: Stage, setting: Setting, style: Style) -> tuple[Term, ...]:
    """Cosines and sines of all positions, [1, s, w], which every layer saves.

    Gemma 3 has a pair for layers with a window and one for those without.
    """
    shapes = [layer.attention for layer, _ in stage.groups]
    width = max((shape.rotary_dim for shape in shapes), default=0)
    if not width:
        return ()
    pairs = len({shape.window for shape in shapes}) if style.norms_after_transpose else 1
    kind_bytes = Recorder(setting).bytes("1", style.table or setting.residual)
    sizes = setting.sizes(w=width)
    size = 2 * pairs * sizes.bytes("s w", kind_bytes)
    formula = f"{2 * pairs}*{sizes.formula('s w', kind_bytes)}"
    return (Term(ACTIVATIONS, "rotary cos and sin", size, formula, count=2 * pairs),)


def _arguments(stage: Stage, setting: Setting, style: Style) -> tuple[Term, ...]:
    """What checkpoints hold of each layer's arguments beside its input: positions and masks, all the same."""
    if stage.job.checkpointing.mode != "full":
        return ()
    sizes = setting.sizes()
    positions = Term(ACTIVATIONS, "position_ids", sizes.bytes("s", 8), sizes.formula("s", 8))
    if stage.job.model.positions:  # its embedding has saved them already
        positions = replace(positions, bytes=0)
    windows = {layer.attention.window for layer, _ in stage.groups if layer.attention.window is not None}
    if style.eager:
        size = bytes_for(sizes.bytes("s s"), setting.product)
        return positions, Term(ACTIVATIONS, "mask", size, f"s*s*{setting.product}")
    masks = len({window for window in windows if window < sizes.bytes("s")}) or int(style.always_masked)
    if not masks:
        return (positions,)
    mask = Term(ACTIVATIONS, "mask", masks * sizes.bytes("s s"), sizes.formula("s s", 1), count=masks)
    return positions, mask


def _head(stage: Stage, setting: Setting, style: Style) -> Block:
    model = stage.job.model
    r = Recorder(setting, V=-(-model.vocab // setting.tensor_parallel), i=model.embedding_dim or 0)
    hidden = r.input("hidden_states", "b s h", setting.residual)
    if model.decoder.final_norm is not None:
        hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", style.rms)
    width = "h"
    if model.embedding_dim not in (None, model.hidden):
        hidden, width = linear(r, "project_out", hidden, "i", "h"), "i"
    loss = full_loss(r, hidden, model, width, upcasts=stage.job.loss.upcasts)
    return Block("head", r.tape(loss))
