"""Transformers' models (5.23.0) as blocks: embedding, groups of identical layers, norm and head and loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from ...components import ACTIVATIONS
from ..job import Precision
from ..model import Layer
from ..moments import Block
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .checkpoints import checkpointed
from .decoders import layer_tape
from .embeddings import embedding_tape, embeddings_held, rotary_tables
from .encoder_decoder import encoder_decoder_blocks
from .generation import generation_blocks
from .heads import loss_blocks, normed_of, teacher_head
from .setting import Setting, setting_of
from .styles import Style, style_of


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of one rank's stage, in forward order."""
    model = stage.job.model
    if stage.job.task == "generate":
        return generation_blocks(stage)
    if model.encoder is not None:
        return encoder_decoder_blocks(stage)
    setting, style = setting_of(stage), style_of(model.architecture)
    blocks: list[Block] = []
    if stage.has_embedding:
        shared = (*rotary_tables(stage, setting, style), *_arguments(stage, setting, style))
        blocks.append(Block("embedding", embedding_tape(setting, model, style), stays=shared))
    blocks += _layers(stage, setting, style)
    if stage.has_head:
        teacher = teacher_blocks(stage) if stage.job.teacher is not None else ()
        blocks += loss_blocks(stage, setting, normed_of(model, style), teacher, upcasts=style.upcasts)
    return tuple(blocks)


def _layers(stage: Stage, setting: Setting, style: Style) -> Iterator[Block]:
    """The layers, those behind a frozen embedding apart: the first one's input needs no gradient."""
    job = stage.job
    is_causal = job.model.decoder.is_causal

    @cache
    def tape_of(layer: Layer) -> Tape:
        return layer_tape(setting, layer, style, is_causal=is_causal)

    first = 0
    held = embeddings_held(setting, job.model) if stage.has_embedding else ()
    is_saved = job.checkpointing.mode != "none"
    for number, (layer, count) in enumerate(stage.groups):
        name = f"layers {number}" if number else "layers"
        starts = first == 0 and stage.has_embedding and not setting.trains
        if starts and job.checkpointing.mode == "none":
            tape = layer_tape(setting, layer, style, is_causal=is_causal, has_trained_input=False)
            yield Block(name, tape)
            count, first = count - 1, 1
        if count:
            tape = tape_of(layer)
            is_saved = is_saved or (first == 0 and _saves_input(tape))
            is_only = first + count == 1
            during = () if (is_saved or is_only) and not job.model.positions else held
            block = Block(name, tape, count, during_forward=during)
            yield from checkpointed(block, job.checkpointing, first)
        first += count


def _saves_input(tape: Tape) -> bool:
    return any(tensor.name == "hidden_states" for tensor in tape.saved())


def teacher_blocks(stage: Stage) -> tuple[Block, ...]:
    """A teacher's forward under ``no_grad``: embedding, layers, head; its logits are what the loss reads."""
    job = stage.job
    model = job.teacher
    assert model is not None
    kind = job.teacher_type or job.precision.compute_type
    alone = replace(stage, job=replace(job, precision=Precision("pure", kind)))
    setting = setting_of(alone, model).frozen()
    style = style_of(model.architecture)
    chunks = job.loss.chunks if job.loss.kind == "chunked" else 1
    is_causal = model.decoder.is_causal
    layers = [
        Block(
            "teacher layers",
            layer_tape(setting, layer, style, is_causal=is_causal),
            count,
            saves=False,
            during_forward=embeddings_held(setting, model),
        )
        for layer, count in model.decoder.groups
    ]
    return (
        Block("teacher embedding", embedding_tape(setting, model, style), saves=False),
        *layers,
        Block("teacher head", teacher_head(setting, model, normed_of(model, style), chunks), saves=False),
    )


def _arguments(stage: Stage, setting: Setting, style: Style) -> tuple[Term, ...]:
    """What checkpoints hold of each layer's arguments besides its input: positions and masks, shared."""
    if stage.job.checkpointing.mode != "full":
        return ()
    sizes = setting.sizes()
    positions = Term(ACTIVATIONS, "position_ids", sizes.bytes("s", 8), sizes.formula("s", 8))
    if stage.job.model.positions:  # its embedding has saved them already
        positions = replace(positions, bytes=0)
    if style.eager:
        size = bytes_for(sizes.bytes("b s s"), setting.product)
        return positions, Term(ACTIVATIONS, "mask", size, f"b*s*s*{setting.product}")
    windows = {layer.attention.window for layer, _ in stage.groups if layer.attention.window is not None}
    masks = len({window for window in windows if window < sizes.bytes("s")}) or int(style.always_masked)
    mask = Term(ACTIVATIONS, "mask", masks * sizes.bytes("s s"), sizes.formula("s s", 1), count=masks)
    return (positions, mask) if masks else (positions,)
