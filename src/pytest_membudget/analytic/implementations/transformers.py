"""Transformers' models (5.23.0) as blocks: embedding, groups of alike layers, final norm and head and loss."""

from __future__ import annotations

from ..moments import Block
from ..stage import Stage
from .decoders import layer_tape
from .heads import full_loss
from .linears import embedding
from .norms import norm
from .recorder import Recorder
from .setting import Setting, setting_of
from .styles import Style, style_of


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of one rank's stage, in forward order."""
    setting = setting_of(stage)
    style = style_of(stage.job.model.architecture)
    blocks: list[Block] = []
    if stage.has_embedding:
        blocks.append(_embedding(stage, setting))
    mode = stage.job.checkpointing.mode
    for number, (layer, count) in enumerate(stage.groups):
        tape = layer_tape(setting, layer, style)
        checkpoint = ("hidden_states",) if mode == "full" else None
        blocks.append(Block(f"layers {number}" if number else "layers", tape, count, checkpoint))
    if stage.has_head:
        blocks.append(_head(stage, setting, style))
    return tuple(blocks)


def _embedding(stage: Stage, setting: Setting) -> Block:
    model = stage.job.model
    attention = stage.groups[0][0].attention
    r = Recorder(setting, V=-(-model.vocab // setting.tensor_parallel), w=attention.rotary_dim)
    tokens = r.input("input_ids", "b s", "int64", trains=False)
    hidden = embedding(r, "embed_tokens", tokens, "V", "h", joins=model.tied)
    return Block("embedding", r.tape(hidden))


def _head(stage: Stage, setting: Setting, style: Style) -> Block:
    model = stage.job.model
    r = Recorder(setting, V=-(-model.vocab // setting.tensor_parallel))
    hidden = r.input("hidden_states", "b s h", setting.residual)
    if model.decoder.final_norm is not None:
        hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", style.rms)
    loss = full_loss(r, hidden, "V", upcasts=stage.job.loss.upcasts, bias=model.head_bias, joins=model.tied)
    return Block("head", r.tape(loss))
