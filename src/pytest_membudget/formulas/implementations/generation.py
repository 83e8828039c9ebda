"""Inference as transformers 5.23.0 runs it: a prompt at once, then tokens one by one, with a cache.

``cache_utils.py``: a dynamic cache grows by concatenation, a layer's old keys being there until the new ones
are; a static one is there whole from the first token on. Layers with a window keep no more than that.
DeepSeek's cache is the narrow projection (``kr + ro`` numbers a token). The prompt's logits are the last
position's alone, as ``generate`` asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...components import ACTIVATIONS
from ..job import Generation
from ..model import Layer, Model
from ..moments import Block
from ..number_types import bytes_for, number_type
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .caches import CACHED
from .decoders import layer_tape
from .embeddings import embedding_tape, embeddings_held, rotary_tables
from .heads import head_recorder
from .linears import linear
from .losses import squeezed
from .norms import norm
from .operators import cut
from .setting import Setting, setting_of
from .styles import Style, style_of


def generation_blocks(stage: Stage) -> tuple[Block, ...]:
    """Blocks without a backward: the prompt's, then those of the last token."""
    generation = stage.job.generation or Generation(new_tokens=1)
    prompt = stage.sequence
    setting = setting_of(stage).frozen()
    kind = number_type(generation.cache_type or stage.job.precision.compute_type)
    if generation.cache == "none":
        whole = prompt + generation.new_tokens
        every = replace(setting, values={**setting.values, "s": whole, "n": whole})
        return tuple(_pass(stage, every, ""))
    # the last token is not put into the cache
    whole = prompt + generation.new_tokens - 1
    sizes = {"T": prompt, "N": _kept_tokens(generation, prompt, whole), "O": 0}
    first = replace(setting, values={**setting.values, **sizes}, keys="T", cache_kind=kind)
    blocks = tuple(_pass(stage, first, ""))
    if generation.new_tokens == 1:
        return blocks
    return *blocks, *_decoding(stage, first, generation, prompt, whole)


def _kept_tokens(generation: Generation, tokens: int, whole: int) -> int:
    """For how many tokens there is room once ``tokens`` are in the cache."""
    if generation.cache == "static":
        return whole + 1
    if generation.cache == "paged":
        return -(-tokens // generation.block_tokens) * generation.block_tokens
    return tokens


def _pass(stage: Stage, setting: Setting, prefix: str) -> Iterator[Block]:
    """Embedding, layers and head, over the tokens of ``setting``."""
    model = stage.job.model
    style = style_of(model.architecture)
    if stage.has_embedding:
        tables = rotary_tables(stage, setting, style)
        tape = embedding_tape(setting, model, style)
        yield Block(f"{prefix}embedding", tape, saves=False, stays=tables)
    held = embeddings_held(setting, model) if stage.has_embedding else ()
    stays = None if setting.keys == "s" else CACHED
    for number, (layer, count) in enumerate(stage.groups):
        name = f"{prefix}layers {number}" if number else f"{prefix}layers"
        own = _of_layer(setting, layer)
        tape = layer_tape(own, layer, style, is_causal=model.decoder.is_causal)
        yield Block(name, tape, count, stays, saves=False, during_forward=held)
    if stage.has_head and model.has_head:
        yield Block(f"{prefix}head", _head(setting, model, style), saves=False)


def _of_layer(setting: Setting, layer: Layer) -> Setting:
    """A layer with a window keeps no more than that."""
    window = layer.attention.window
    if window is None or setting.keys == "s":
        return setting
    values = {**setting.values}
    values |= {name: min(values[name], window) for name in ("T", "N", "O")}
    return replace(setting, values=values)


def _decoding(
    stage: Stage, first: Setting, generation: Generation, prompt: int, whole: int
) -> Iterator[Block]:
    """One token more, with a cache that has grown."""
    is_joined = generation.cache == "dynamic"
    sizes = {"s": 1, "n": 1, "T": whole, "N": int(is_joined), "O": (whole - 1) * is_joined}
    setting = replace(first, values={**first.values, **sizes})
    grown = tuple(_growth(stage, first, generation, prompt, whole))
    for block in _pass(stage, setting, "decoding "):
        yield replace(block, during_forward=(*block.during_forward, *grown))


def _growth(stage: Stage, first: Setting, generation: Generation, prompt: int, whole: int) -> Iterator[Term]:
    """What tokens decoded so far have added to all layers' caches."""
    before = _kept_tokens(generation, prompt, whole)
    after = _kept_tokens(generation, whole - (generation.cache == "dynamic"), whole)
    for layer, count in stage.groups:
        window = layer.attention.window or after
        tokens = max(0, min(after, window) - min(before, window))
        width, formula = _cache_width(stage, layer)
        size = bytes_for(stage.job.micro_batch * tokens * width, first.cache_kind)
        if size:
            yield Term(ACTIVATIONS, "cache of decoded tokens", size * count, formula, count=2 * count)


def _cache_width(stage: Stage, layer: Layer) -> tuple[int, str]:
    """Numbers that one layer keeps of a token."""
    shape = layer.attention
    if shape.latent is not None:
        return shape.latent.kv_rank + shape.latent.rope_dim, "b*tokens*(kr+ro)"
    heads = -(-shape.kv_heads // stage.job.degrees.tensor_parallel_degree)
    return heads * (shape.head_dim + shape.value_head_dim), "b*tokens*g*(d+e)"


def _head(setting: Setting, model: Model, style: Style) -> Tape:
    """The final norm over all tokens, the head over each sequence's last."""
    r = head_recorder(setting, model)
    hidden = r.input("hidden_states", "b s h", setting.residual)
    if model.decoder.final_norm is not None:
        hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", style.rms)
    last = cut(r, "last token", hidden, "b 1 h")
    width = "h"
    if model.embedding_dim not in (None, model.hidden):
        last, width = linear(r, "project_out", last, "i", "h"), "i"
    logits = linear(r, "lm_head", last, "V", width, bias=model.head_bias)
    return r.tape(squeezed(r, logits) if model.final_softcap else logits)
