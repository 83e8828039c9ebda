"""DeepSeek's multi-head latent attention as transformers 5.23.0 runs it (DeepSeek V2 and V3).

Sizes: ``qr`` and ``kr`` the narrow widths of queries and keys, ``ro`` and ``no`` the parts of a head with and
without rotary positions, ``d = no + ro``, ``e`` of values.
"""

from __future__ import annotations

from typing import Literal

from ..model import Attention
from .attention_core import attend
from .caches import cached
from .core import Core
from .linears import linear
from .norms import rms_norm
from .operators import add, cast, cut, relayout
from .recorder import Backward, Recorder, Value, wider

#: How pairs turn: as complex numbers (V2), or by slices of every second number (V3).
Turning = Literal["complex", "interleaved"]


def latent_sizes(shape: Attention) -> dict[str, int]:
    """The sizes of latent attention; none where it is not."""
    if shape.latent is None:
        return {}
    latent = shape.latent
    return {"qr": latent.query_rank or 0, "kr": latent.kv_rank, "ro": latent.rope_dim, "no": latent.nope_dim}


def latent_attention(r: Recorder, x: Value, shape: Attention, turning: Turning) -> Value:
    """Narrow projections, their norms, wide ones, keys put together, the core, the projection out."""
    latent = shape.latent
    assert latent is not None
    bias = shape.qkv_bias
    if latent.query_rank is None:
        q = linear(r, "q_proj", x, "a d", "h")
    else:
        narrow = linear(r, "q_a_proj", x, "qr", "h", bias=bias)
        q = linear(r, "q_b_proj", rms_norm(r, "q_a_layernorm", narrow, "qr", "llama"), "a d", "qr")
    whole_q = q
    q_pass, q_rot = _split(r, ("q pass", "q rot"), relayout(r, "q heads", q), ("b s a no", "b s a ro"))
    both = linear(r, "kv_a_proj_with_mqa", x, f"{r.sizes.bytes('kr') + r.sizes.bytes('ro')}", "h", bias=bias)
    kv, k_rot = _split(r, ("kv narrow", "k rot"), both, ("b s kr", "b s ro"))
    kv = rms_norm(r, "kv_a_layernorm", kv, "kr", "llama")
    q_rot, k_rot = (_turned(r, name, part, turning) for name, part in (("q", q_rot), ("k", k_rot)))
    kv, k_rot = cached(r, "key", kv), cached(r, "value", k_rot)
    q = r.run("query", (q_pass, q_rot), "b s a d", q.kind, Backward(hands_on=True))
    k, v = _expanded(r, kv, k_rot)
    core = Core(keys=r.setting.keys, dropout=shape.dropout, by_heads=True)
    attended = attend(r, "attention", q, k, v, core)
    result = linear(r, "o_proj", attended, "h", "a e", bias=shape.output_bias)
    r.hold(x, q, k, v, whole_q, q_rot, both, k_rot, kv)
    return result


def _expanded(r: Recorder, kv: Value, k_rot: Value) -> tuple[Value, Value]:
    """``expand_kv``: keys are written in two slices into a new tensor; values are part of the projection."""
    width = f"{r.sizes.bytes('no') + r.sizes.bytes('e')}"
    tokens = f"b {r.setting.keys}"
    wide = relayout(r, "kv heads", linear(r, "kv_b_proj", kv, f"a {width}", "kr"))
    k_pass, v = _split(r, ("k pass", "value"), wide, (f"{tokens} a no", f"{tokens} a e"))
    shared = r.run("k rot of all heads", (k_rot,), f"{tokens} a ro", k_rot.kind, view_of=k_rot)
    keys = f"{tokens} a d"
    key_bytes, part_bytes = r.bytes(keys, wide.kind), r.bytes(f"{tokens} a ro", wide.kind)
    begun = r.run("key", (k_pass,), keys, wide.kind, Backward(scratch_bytes=key_bytes))
    back = Backward(scratch_bytes=part_bytes)
    return r.run("key with rot", (begun, shared), keys, wide.kind, back, view_of=begun), v


def _split(r: Recorder, names: tuple[str, str], x: Value, dims: tuple[str, str]) -> tuple[Value, Value]:
    """Two views; their gradients are put together."""
    other = Value(names[1], dims[1], x.kind, x.trains)
    return r.run(names[0], (x,), dims[0], x.kind, view_of=x, makes=(other,)), other


def _turned(r: Recorder, name: str, x: Value, turning: Turning) -> Value:
    if turning == "complex":
        return _as_complex(r, name, x)
    kind = wider(x.kind, r.setting.residual)
    half = f"{x.dims.removesuffix('ro')}{r.sizes.bytes('ro') // 2}"
    first, second = (cut(r, f"{name} {which}", x, half) for which in ("even", "odd"))

    def times(part: Value, table: str) -> Value:
        scratch = r.bytes(half, kind) if kind != part.kind else 0
        return r.run(f"{part.name} * {table}", (part,), half, kind, Backward(scratch_bytes=scratch))

    one, other = times(first, "cos"), times(second, "sin")
    negative = r.run(f"{name} odd * -sin", (other,), half, kind, view_of=other)
    real = add(r, f"{name} real", one, negative)
    imaginary = add(r, f"{name} imaginary", times(second, "cos"), times(first, "sin"))
    result = r.run(f"{name} turned", (real, imaginary), x.dims, kind, Backward(hands_on=True))
    r.hold(real, imaginary)
    return result


def _as_complex(r: Recorder, name: str, x: Value) -> Value:
    """fp32 pairs as complex numbers, times those of the positions, and back."""
    pairs = cast(r, f"{name} pairs", x, "fp32")
    spun = r.run(f"{name} pairs turned", (pairs,), x.dims, "fp32")
    r.hold(pairs)
    return cast(r, f"{name} turned", spun, x.kind)
