"""Inference as transformers 5.23.0 runs it: a prompt at once, then tokens one by one, with a cache.

``cache_utils.py``: a dynamic cache grows by concatenation, a layer's old keys being there until the new ones
are; a static one is there whole from the first token on. Layers with a window keep no more than that.
DeepSeek's cache is the narrow projection (``kr + ro`` numbers a token). The prompt's logits are the last
position's alone, as ``generate`` asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...components import ACTIVATIONS, TEMPORARIES
from ..job import Generation
from ..model import Layer, Model
from ..moments import Block
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
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
    job = stage.job
    generation = job.generation or Generation(new_tokens=1)
    prompt = stage.sequence
    whole = prompt + generation.new_tokens - 1  # the last token is not put into the cache
    setting = setting_of(stage).frozen()
    if generation.cache == "none":
        all_tokens = replace(setting, values={**setting.values, "s": whole, "n": whole, "T": whole})
        return tuple(_pass(stage, all_tokens, "", whole))
    first = replace(setting, values={**setting.values, "T": prompt}, keys="T")
    decoding = {**setting.values, "s": 1, "n": 1, "T": whole}
    last = replace(setting, values=decoding, keys="T")
    return *_pass(stage, first, "", prompt), *_decoding(stage, last, prompt, whole)


def _pass(stage: Stage, setting: Setting, prefix: str, tokens: int) -> Iterator[Block]:
    model = stage.job.model
    style = style_of(model.architecture)
    if stage.has_embedding:
        tables = rotary_tables(stage, setting, style)
        tape = embedding_tape(setting, model, style)
        yield Block(f"{prefix}embedding", tape, saves=False, stays=tables)
    for number, (layer, count) in enumerate(stage.groups):
        name = f"layers {number}" if number else "layers"
        tape = layer_tape(setting, layer, style, is_causal=model.decoder.is_causal)
        stays = _cache(stage, layer, tokens)
        held = embeddings_held(setting, model) if stage.has_embedding else ()
        yield Block(prefix + name, tape, count, saves=False, stays=stays, beside_forward=held)
    if stage.has_head and model.has_head:
        yield Block(f"{prefix}head", _head(setting, model, style), saves=False)


def _decoding(stage: Stage, setting: Setting, prompt: int, whole: int) -> Iterator[Block]:
    """One token more: the cache has grown; one layer's keys are there twice while they are put together."""
    grown = _growth(stage, prompt, whole)
    for block in _pass(stage, setting, "decoding ", whole):
        beside = (*block.beside_forward, *grown)
        if "layers" in block.name:
            beside = (*beside, *_joined(stage, whole))
        yield replace(block, stays=(), beside_forward=beside)


def _growth(stage: Stage, prompt: int, whole: int) -> tuple[Term, ...]:
    terms = []
    for layer, count in stage.groups:
        before, after = _cache(stage, layer, prompt), _cache(stage, layer, whole)
        for old, new in zip(before, after, strict=True):
            more = (new.bytes - old.bytes) * count
            terms.append(replace(new, name="cache of decoded tokens", bytes=more, count=new.count * count))
    return tuple(term for term in terms if term.bytes)


def _joined(stage: Stage, whole: int) -> tuple[Term, ...]:
    generation = stage.job.generation
    if generation is not None and generation.cache != "dynamic":
        return ()
    largest = max(sum(term.bytes for term in _cache(stage, layer, whole)) for layer, _ in stage.groups)
    return (Term(TEMPORARIES, "keys put together", largest // 2, "b*T*g*d"),)


def _cache(stage: Stage, layer: Layer, tokens: int) -> tuple[Term, ...]:
    """One layer's keys and values of ``tokens``."""
    job = stage.job
    generation = job.generation or Generation(new_tokens=1)
    if generation.cache == "none":
        return ()
    if generation.cache == "static":
        tokens = stage.sequence + generation.new_tokens
    if generation.cache == "paged":
        tokens = -(-tokens // generation.block_tokens) * generation.block_tokens
    shape = layer.attention
    if shape.window is not None:
        tokens = min(tokens, shape.window)
    kind = generation.cache_type or job.precision.compute_type
    if shape.latent is not None:
        width, formula = shape.latent.kv_rank + shape.latent.rope_dim, "b*T*(kr+ro)"
    else:
        heads = -(-shape.kv_heads // job.degrees.tensor_parallel_degree)
        width, formula = heads * (shape.head_dim + shape.value_head_dim), "b*T*g*(d+e)"
    size = bytes_for(job.micro_batch * tokens * width, kind)
    return (Term(ACTIVATIONS, "key-value cache", size, f"{formula}*{kind}", count=2),)


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
