"""Layers as transformers 5.23.0 runs them: attention and feed-forward, in sequence or side by side."""

from __future__ import annotations

from dataclasses import replace

from ..model import Attention, FeedForward, Layer
from ..tape import Tape
from .attention_core import attend
from .caches import cached
from .core import Core
from .experts import expert_sizes, mixture
from .feed_forward import feed_forward
from .kept_tapes import kept
from .latent import latent_attention, latent_sizes
from .linears import linear
from .norms import norm
from .operators import add, cast, dropout, relayout, unary
from .projections import project
from .recorder import Recorder, Value
from .rotary import parted, rejoined, turned
from .setting import Setting
from .styles import Style


@kept
def layer_tape(
    setting: Setting, layer: Layer, style: Style, *, is_causal: bool = True, has_trained_input: bool = True
) -> Tape:
    """One layer: [b, s, h] to [b, s, h]."""
    r = Recorder(replace(setting, is_causal=is_causal), **layer_sizes(setting, layer))
    x = r.input("hidden_states", "b s h", setting.residual, trains=has_trained_input)
    write = _parallel if layer.is_parallel else _sequential
    result = write(r, x, layer, style)
    r.hold(x)
    return r.tape(result)


def layer_sizes(setting: Setting, layer: Layer) -> dict[str, int]:
    """Local heads ``a`` and ``g``, a head's widths ``d`` and ``e``, rotary ``w``, intermediate ``f``."""
    t, attention = setting.tensor_parallel, layer.attention
    heads, kv_heads = -(-attention.heads // t), -(-attention.kv_heads // t)
    sizes = {
        "a": heads,
        "g": kv_heads,
        "d": attention.head_dim,
        "e": attention.value_head_dim,
        "w": attention.rotary_dim,
        "q3": heads * attention.head_dim + kv_heads * (attention.head_dim + attention.value_head_dim),
    }
    if isinstance(layer.feed_forward, FeedForward):
        sizes["f"] = -(-layer.feed_forward.intermediate // t)
    else:
        sizes |= expert_sizes(layer.feed_forward, t)
    return sizes | latent_sizes(attention)


def _sequential(r: Recorder, x: Value, layer: Layer, style: Style) -> Value:
    """``x + attention(norm(x))``, then the same with the feed-forward block; norms before, after, or both."""
    before, after = not layer.has_post_norms or layer.norms >= 4, layer.has_post_norms
    middle = attended = x
    for number, part in enumerate(("attention", "feed_forward")):
        start = middle
        inner = norm(r, f"{part} norm", start, layer.norm, "h", style.rms) if before else start
        normed = inner
        is_first = number == 0
        inner = attention(r, inner, layer.attention, style) if is_first else fed(r, inner, layer, style)
        r.hold(normed)
        attended = inner if is_first else attended
        inner = dropout(r, f"{part} output dropout", inner, layer.dropout)
        if after and not style.norms_sums:
            inner = norm(r, f"{part} post norm", inner, layer.norm, "h", style.rms)
        middle = add(r, f"after {part}", start, inner)
        if after and style.norms_sums:
            middle = norm(r, f"{part} post norm", middle, layer.norm, "h", style.rms)
    r.hold(start, *((attended,) if style.holds_attended else ()))
    return middle


def fed(r: Recorder, x: Value, layer: Layer, style: Style) -> Value:
    """The feed-forward block or mixture of experts of ``layer``."""
    if isinstance(layer.feed_forward, FeedForward):
        inner = layer.dropout if style.rms == "t5" else 0.0
        return feed_forward(r, x, layer.feed_forward, inner_dropout=inner)
    return mixture(r, x, layer.feed_forward, style.routing)


def _parallel(r: Recorder, x: Value, layer: Layer, style: Style) -> Value:
    """Attention and feed-forward of the same input, behind one norm or each behind its own."""
    assert isinstance(layer.feed_forward, FeedForward)
    normed = norm(r, "attention norm", x, layer.norm, "h", style.rms)
    own_first = style.sums == "in-place" and layer.norms > 1
    second = norm(r, "feed_forward norm", x, layer.norm, "h", style.rms) if own_first else normed
    attended = attention(r, normed, layer.attention, style)
    attended = dropout(r, "attention output dropout", attended, layer.dropout)
    if layer.norms > 1 and not own_first:
        second = norm(r, "feed_forward norm", x, layer.norm, "h", style.rms)
    fed = feed_forward(r, second, layer.feed_forward)
    if style.sums == "in-place":
        return _falcon_sum(r, x, attended, fed, layer.dropout)
    fed = dropout(r, "feed_forward dropout", fed, layer.dropout)
    both = add(r, "both", attended, fed)
    result = add(r, "output", both, x)
    r.hold(attended, fed)
    return result


def _falcon_sum(r: Recorder, x: Value, attended: Value, fed: Value, probability: float) -> Value:
    """``mlp += attention``, dropout, ``residual + out``."""
    both = r.run("both", (fed, attended), fed.dims, fed.kind, view_of=fed)
    both = dropout(r, "output dropout", both, probability)
    result = add(r, "output", x, both)
    r.hold(attended, fed)
    return result


def attention(r: Recorder, x: Value, shape: Attention, style: Style) -> Value:
    """Projections, norms of queries and keys, rotary positions, the core, the projection out."""
    if shape.latent is not None:
        return latent_attention(r, x, shape, style.turning)
    q, k, v = project(r, x, shape, style)
    if style.scales_query:
        q = unary(r, "q scaled", q)
    q, k = (_ready(r, name, value, shape, style) for name, value in (("q", q), ("k", k)))
    if shape.rotary_dim:
        q, k = _turned(r, q, k, shape, style)
    given = k, v
    k, v = cached(r, "key", k), cached(r, "value", v)
    r.hold(*given)
    core = Core(
        keys=r.setting.keys,
        has_mask=style.always_masked or (shape.window is not None and shape.window < r.sizes.bytes("s")),
        is_causal=r.setting.is_causal,
        dropout=shape.dropout,
        repeats_heads=not style.always_masked,
        by_heads=style.joins_heads and bool(shape.rotary_dim),
        is_eager=style.eager,
        softcap=style.softcap,
    )
    attended = attend(r, "attention", q, k, v, core)
    result = linear(r, "o_proj", attended, "h", "a e", bias=shape.output_bias)
    r.hold(x, q, k, v)
    return result


def _ready(r: Recorder, name: str, x: Value, shape: Attention, style: Style) -> Value:
    """Norms of queries and keys; then gradients that lie by heads are copied on their way back."""
    turns = bool(shape.rotary_dim)
    if shape.qk_norm is None:
        return relayout(r, f"{name} heads", x) if turns else x
    if shape.qk_norm == "projection":
        heads = x.dims.removeprefix("b s ")
        x = norm(r, f"{name}_norm", x, shape.qk_norm_kind, heads, style.rms)
        return relayout(r, f"{name} heads", x) if turns else x
    if style.norms_after_transpose:
        x = relayout(r, f"{name} heads", x)
        return norm(r, f"{name}_norm", x, shape.qk_norm_kind, "d", style.rms)
    return norm(r, f"{name}_norm", x, shape.qk_norm_kind, "d", style.rms)


def _turned(r: Recorder, q: Value, k: Value, shape: Attention, style: Style) -> tuple[Value, Value]:
    """Both turned by position, wholly or in part; what they were is held until both are."""
    table = style.table or r.setting.residual
    if not style.joins_heads:
        found = [_whole(r, name, x, table, style) for name, x in (("q", q), ("k", k))]
        r.hold(q, k)
        return found[0], found[1]
    parts = [parted(r, name, x, "w") for name, x in (("q", q), ("k", k))]
    spun = [turned(r, name, part[0], table, "w") for name, part in zip("qk", parts, strict=True)]
    found = [
        rejoined(r, name, (one, part[1]), x)
        for name, one, part, x in zip("qk", spun, parts, (q, k), strict=True)
    ]
    r.hold(q, k, *spun)
    return found[0], found[1]


def _whole(r: Recorder, name: str, x: Value, table: str, style: Style) -> Value:
    found = turned(r, name, x, table, "d")
    return cast(r, f"{name} turned back", found, x.kind) if style.casts_turned else found
