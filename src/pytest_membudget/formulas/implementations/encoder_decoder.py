"""T5 as transformers 5.23.0 runs it: an encoder, a decoder that reads its output, learned biases by distance.

The bias of a stack is made by its first layer and used by all: one tensor [s, s, a] while the stack runs
forward, and one gradient that all layers add to. Sizes: ``s`` tokens of the stack, ``u`` of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...components import ACTIVATIONS, TEMPORARIES
from ..model import Attention, Layer, Model, Stack
from ..moments import Block
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .attention_core import attend
from .core import Core
from .decoders import fed, layer_sizes
from .embeddings import embedding_tape
from .heads import Normed, loss_blocks
from .kept_tapes import kept
from .linears import embedding, linear
from .norms import norm
from .operators import add, cast, copy, dropout, unary
from .recorder import END, Backward, Recorder, Value
from .setting import Setting, setting_of
from .styles import Style

_STYLE = Style(rms="t5", upcasts=False)


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a layer in its stack."""

    is_first: bool
    is_decoder: bool
    is_checkpointed: bool = False


def encoder_decoder_blocks(stage: Stage) -> tuple[Block, ...]:
    """The encoder's blocks, then the decoder's."""
    model = stage.job.model
    assert model.encoder is not None
    source = stage.job.source_sequence or stage.job.sequence
    encoder, decoder = setting_of(stage, tokens=source), setting_of(stage)
    encoder = replace(encoder, values={**encoder.values, "h": model.encoder.hidden, "u": source})
    decoder = replace(decoder, values={**decoder.values, "u": source})
    is_checkpointed = stage.job.checkpointing.mode == "full"
    tokens = embedding_tape(encoder, model, _STYLE), embedding_tape(decoder, model, _STYLE)
    before = (
        Block("encoder embedding", tokens[0]),
        *_stack(encoder, model.encoder, is_decoder=False, is_checkpointed=is_checkpointed),
        _encoder_end(stage, encoder, model.encoder),
        Block("embedding", tokens[1]),
    )
    left = _cross_bias(decoder, model.decoder) if is_checkpointed else ()
    return (
        *(replace(block, during_backward=(*block.during_backward, *left)) for block in before),
        *_stack(decoder, model.decoder, is_decoder=True, is_checkpointed=is_checkpointed),
        *loss_blocks(stage, decoder, _normed(model), upcasts=False),
    )


def _cross_bias(setting: Setting, stack: Stack) -> tuple[Term, ...]:
    """The zeros of attention over the encoder's output, and their gradient.

    With checkpoints they are made to need one: a leaf, which the graph holds until all backward is over.
    """
    layer = stack.groups[0][0]
    size = bytes_for(setting.sizes(**layer_sizes(setting, layer)).bytes("a s u"), setting.product)
    formula = f"a*s*u*{setting.product}"
    return (
        Term(ACTIVATIONS, "cross bias", size, formula),
        Term(TEMPORARIES, "cross bias gradient", size, formula),
    )


def _stack(setting: Setting, stack: Stack, *, is_decoder: bool, is_checkpointed: bool) -> list[Block]:
    """First, middle and last layers: the last one meets no gradient that waits."""
    (layer, count), *others = stack.groups
    assert not others, "T5's layers are identical"
    name = "layers" if is_decoder else "encoder layers"
    checkpoint = ("hidden_states",) if is_checkpointed else None
    sizes = setting.sizes(**layer_sizes(setting, layer))
    bias = bytes_for(sizes.bytes("s s a"), setting.stored)
    held = Term(
        ACTIVATIONS if is_checkpointed else TEMPORARIES, "position bias", bias, f"s*s*a*{setting.stored}"
    )
    shared = [held]
    waiting = [Term(TEMPORARIES, "position bias gradient", bias, f"s*s*a*{setting.stored}")]
    if is_decoder:
        size = bytes_for(sizes.bytes("b u h"), setting.residual)
        waiting.append(Term(TEMPORARIES, "encoder output gradient", size, f"b*u*h*{setting.residual}"))
        if is_checkpointed:
            bias_and_gradient = _cross_bias(setting, stack)
            waiting.append(bias_and_gradient[1])
            shared.append(bias_and_gradient[0])
    blocks = []
    for number, part in ((0, 1), (1, count - 2), (2, min(count - 1, 1))):
        if part <= 0:
            continue
        tape = layer_tape(setting, layer, _Place(number == 0, is_decoder, is_checkpointed))
        is_last = number == 2 or count == 1
        blocks.append(
            Block(
                name,
                tape,
                part,
                checkpoint,
                stays=tuple(shared) if is_checkpointed and number == 0 else (),
                during_forward=() if is_checkpointed or number == 0 else (held,),
                during_backward=() if is_last else tuple(waiting),
            )
        )
    return blocks


@kept
def layer_tape(setting: Setting, layer: Layer, place: _Place) -> Tape:
    """Self-attention, attention over the encoder's output, feed-forward: ``x + dropout(part(norm(x)))``."""
    r = Recorder(setting, **layer_sizes(setting, layer), R=layer.attention.relative_buckets)
    x = r.input("hidden_states", "b s h", setting.residual)
    encoded = _shared(r, "encoder_hidden_states", "b u h") if place.is_decoder else None
    bias = None if place.is_first else _shared(r, "position_bias", "s s a")
    start = x
    normed = norm(r, "attention norm", x, layer.norm, "h", "t5")
    middle = _added(r, "attention", x, _self_attention(r, normed, layer.attention, bias, place), layer)
    if encoded is not None and layer.cross_attention is not None:
        normed = norm(r, "cross norm", middle, layer.norm, "h", "t5")
        part = _cross_attention(r, normed, encoded, layer.cross_attention, place)
        middle = _added(r, "cross attention", middle, part, layer)
    normed = norm(r, "feed_forward norm", middle, layer.norm, "h", "t5")
    result = _added(r, "feed_forward", middle, fed(r, normed, layer, _STYLE), layer)
    r.hold(start)
    return r.tape(result)


def _shared(r: Recorder, name: str, dims: str) -> Value:
    """What all layers share: it is counted once, elsewhere; its gradient is this layer's."""
    root = r.input(f"shared {name}", "0", r.setting.residual)
    return r.run(name, (root,), dims, r.setting.residual, Backward(hands_on=True), view_of=root)


def _added(r: Recorder, name: str, x: Value, part: Value, layer: Layer) -> Value:
    dropped = dropout(r, f"{name} output dropout", part, layer.dropout)
    result = add(r, f"after {name}", x, dropped)
    r.hold(x, part, dropped)
    return result


def _self_attention(r: Recorder, x: Value, shape: Attention, bias: Value | None, place: _Place) -> Value:
    q, k, v = (linear(r, name, x, width, "h") for name, width in (("q", "a d"), ("k", "g d"), ("v", "g e")))
    if bias is None:
        buckets = r.run("relative buckets", (), "s s", "int64")
        bias = embedding(r, "relative_attention_bias", buckets, "R", "a", saves_rows=True)
    if place.is_decoder:  # torch.where with a causal mask
        mask = Value("causal mask", "s s", "bool")
        bias = r.run("bias masked", (bias,), bias.dims, bias.kind, Backward(keeps=(mask,)))
    lying = copy(r, "bias by heads", bias)
    lying = cast(r, "bias cast", lying, r.setting.product)
    whole = r.run("bias of all sequences", (lying,), "b a s s", lying.kind, view_of=lying)
    core = Core(has_mask=True, dropout=shape.dropout)
    result = linear(r, "o", attend(r, "attention", q, k, v, core, whole), "h", "a e")
    r.hold(x, q, k, v, lying)
    return result


def _cross_attention(r: Recorder, x: Value, encoded: Value, shape: Attention, place: _Place) -> Value:
    """Its bias is zeros, made once by the first layer."""
    q = linear(r, "cross q", x, "a d", "h")
    k, v = linear(r, "cross k", encoded, "g d", "h"), linear(r, "cross v", encoded, "g e", "h")
    if place.is_checkpointed:  # then they are made to need a gradient
        shared = _shared(r, "cross_bias", "a s u")
        zeros = r.run("cross bias of all sequences", (shared,), "b a s u", shared.kind, view_of=shared)
    else:
        zeros = r.run("cross bias", (), "a s u" if place.is_first else "0", r.setting.product)
    core = Core(keys="u", has_mask=True, is_causal=False, dropout=shape.dropout)
    result = linear(r, "cross o", attend(r, "cross attention", q, k, v, core, zeros), "h", "a e")
    r.hold(x, q, k, v)
    return result


def _encoder_end(stage: Stage, setting: Setting, stack: Stack) -> Block:
    """Final norm and dropout; what comes out is saved by every layer of the decoder."""
    r = Recorder(setting)
    hidden = r.input("hidden_states", "b s h", setting.residual)
    assert stack.final_norm is not None
    hidden = norm(r, "encoder norm", hidden, stack.final_norm, "h", "t5")
    hidden = dropout(r, "encoder dropout", hidden, stage.job.model.embedding_dropout)
    size = r.bytes_of(hidden)
    output = Term(ACTIVATIONS, "encoder output", size, f"b*u*h*{hidden.kind}")
    return Block("encoder end", r.tape(hidden), stays=(output,))


def _normed(model: Model) -> Normed:
    """Final norm, dropout, and hidden states scaled for the tied head."""

    def make(r: Recorder) -> tuple[Value, str]:
        hidden = r.input("hidden_states", "b s h", r.setting.residual)
        if model.decoder.final_norm is not None:
            hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", "t5")
        hidden = dropout(r, "head dropout", hidden, model.embedding_dropout)
        if not (model.has_head and model.tied):
            return hidden, "h"
        scaled = unary(r, "scaled for the head", hidden)
        r.hold(hidden, until=END)
        return scaled, "h"

    return make
