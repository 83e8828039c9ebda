"""torchtitan's Llama as blocks: plain torch modules, complex rotary positions, its tensor-parallel plan.

Read in pytorch/torchtitan, torchtitan/models/llama3/model/model.py (018740b7), infra/parallelize.py and
torchtitan/distributed/activation_checkpoint.py (cfb93265). With tensor parallelism norms and the residual
stream hold their part of the sequence (``SequenceParallel``); what column-parallel layers read is gathered
whole, and saved so.
"""

from __future__ import annotations

from dataclasses import replace

from ...components import BUFFERS
from ..model import FeedForward, Layer, Model
from ..moments import Block
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .attention_core import attend
from .checkpoints import checkpointed
from .core import Core
from .decoders import layer_sizes
from .experts import mixture
from .feed_forward import feed_forward
from .heads import loss_blocks
from .kept_tapes import kept
from .linears import embedding, linear
from .norms import norm
from .operators import add, cast, copy
from .recorder import Recorder, Value
from .setting import Setting, setting_of
from .transformers import teacher_blocks


def blocks_of(stage: Stage) -> tuple[Block, ...]:
    """The blocks of one rank's stage, in forward order."""
    job = stage.job
    setting = setting_of(stage)
    if setting.tensor_parallel > 1 and not setting.is_sequence_parallel:
        tokens = -(-setting.values["s"] // setting.tensor_parallel)
        values = {**setting.values, "n": tokens}
        setting = replace(setting, values=values, is_sequence_parallel=True)
    blocks: list[Block] = []
    if stage.has_embedding:
        blocks.append(Block("embedding", _embedding(setting, job.model), stays=_tables(stage)))
    first = 0
    for number, (layer, count) in enumerate(stage.groups):
        block = Block(f"layers {number}" if number else "layers", layer_tape(setting, layer), count)
        blocks += checkpointed(block, job.checkpointing, first, saved_operators)
        first += count
    if stage.has_head:
        teacher = teacher_blocks(stage) if job.teacher is not None else ()
        blocks += loss_blocks(stage, setting, lambda r: (_normed(r, job.model), "h"), teacher)
    return tuple(blocks)


@kept
def layer_tape(setting: Setting, layer: Layer) -> Tape:
    """``h = x + attention(norm(x))``, ``h + feed_forward(norm(h))``: [b, n, h] to [b, n, h]."""
    r = Recorder(setting, **layer_sizes(setting, layer))
    x = r.input("hidden_states", "b n h", setting.residual)
    attended = _attention(r, gathered(r, "attention input", _norm(r, "attention_norm", x, layer)), layer)
    middle = add(r, "after attention", x, scattered(r, "wo", attended))
    inner = gathered(r, "feed_forward input", _norm(r, "ffn_norm", middle, layer))
    if isinstance(layer.feed_forward, FeedForward):
        fed = feed_forward(r, inner, layer.feed_forward)
    else:
        fed = mixture(r, inner, layer.feed_forward, "softmax")
    result = add(r, "output", middle, scattered(r, "w2", fed))
    r.hold(x, middle)
    return r.tape(result)


def saved_operators(tape: Tape) -> tuple[str, ...]:
    """What ``_apply_op_sac`` keeps: what attention's kernel and every other ``mm`` gave, the first too."""
    products = [operator for operator in tape.operators if operator.gives_views]
    kept = [operator.makes[0].name for operator in products[::2]]
    for operator in tape.operators:
        if operator.name == "attention":
            kept += [operator.makes[0].name, *(tensor.name for tensor in operator.keeps)]
    return tuple(kept)


def gathered(r: Recorder, name: str, x: Value) -> Value:
    """All tokens of a sequence that is split: an all-gather, whose backward is a reduce-scatter."""
    if not r.setting.is_sequence_parallel:
        return x
    return r.run(f"{name} gathered", (x,), x.dims.replace("b n", "b s", 1), x.kind)


def scattered(r: Recorder, name: str, x: Value) -> Value:
    """The sum over tensor-parallel ranks of this rank's tokens: a reduce-scatter, and back an all-gather."""
    if not r.setting.is_sequence_parallel:
        return x
    return r.run(f"{name} scattered", (x,), x.dims.replace("b s", "b n", 1), x.kind)


def _norm(r: Recorder, name: str, x: Value, layer: Layer) -> Value:
    return norm(r, name, x, layer.norm, "h", "fused")


def _attention(r: Recorder, x: Value, layer: Layer) -> Value:
    shape = layer.attention
    bias = shape.qkv_bias
    q = linear(r, "wq", x, "a d", "h", bias=bias)
    k = linear(r, "wk", x, "g d", "h", bias=bias)
    v = linear(r, "wv", x, "g e", "h", bias=bias)
    if shape.qk_norm is not None:
        q, k = (
            norm(r, f"{name}_norm", y, shape.qk_norm_kind, "d", "fused") for name, y in (("q", q), ("k", k))
        )
    q, k = _turned(r, q, k)
    if r.sizes.bytes("a") != r.sizes.bytes("g"):
        k, v = copy(r, "keys", k, "b s a d"), copy(r, "values", v, "b s a e")
    attended = attend(r, "attention", q, k, v, Core(dropout=shape.dropout))
    result = linear(r, "wo", attended, "h", "a e", bias=shape.output_bias)
    r.hold(q, k, v)
    return result


def _turned(r: Recorder, q: Value, k: Value) -> tuple[Value, Value]:
    """``apply_rotary_emb``: fp32 pairs as complex numbers, times those of the positions, and back."""
    pairs = [cast(r, f"{name} pairs", x, "fp32") for name, x in (("q", q), ("k", k))]
    spun = [
        r.run(f"{name} turned in fp32", (x,), x.dims, "fp32") for name, x in zip("qk", pairs, strict=True)
    ]
    found = [
        cast(r, f"{name} turned", x, kind) for name, x, kind in zip("qk", spun, (q.kind, k.kind), strict=True)
    ]
    r.hold(q, k, *pairs, *spun)
    return found[0], found[1]


@kept
def _embedding(setting: Setting, model: Model) -> Tape:
    r = Recorder(setting, V=-(-model.vocab // setting.tensor_parallel))
    tokens = r.input("tokens", "b s", "int64", trains=False)
    rows = embedding(r, "tok_embeddings", tokens, "V", "h", joins=setting.shares_table)
    return r.tape(scattered(r, "tok_embeddings", rows))


def _normed(r: Recorder, model: Model) -> Value:
    """From the stream's last value to what the head reads."""
    x = r.input("hidden_states", "b n h", r.setting.residual)
    if model.decoder.final_norm is not None:
        x = norm(r, "norm", x, model.decoder.final_norm, "h", "fused")
    return gathered(r, "output", x)


def _tables(stage: Stage) -> tuple[Term, ...]:
    """``freqs_cis``, a buffer of complex numbers for all positions that it was made for."""
    width = max((layer.attention.rotary_dim for layer, _ in stage.groups), default=0)
    size = stage.job.sequence * (width // 2) * 8
    return (Term(BUFFERS, "freqs_cis", size, "sequence*w/2*8"),) if width else ()
