"""torch's own attention by formula, operator by operator: where no kernel takes a call.

``_scaled_dot_product_attention_math`` of aten/src/ATen/native/transformers/attention.cpp (torch 2.13): in
fp32, scores whole. C++ holds each of its variables until it returns.
"""

from __future__ import annotations

from .core import Core
from .operators import cast, copy, dropout, unary
from .recorder import Backward, Recorder, Value


def math_path(r: Recorder, name: str, q: Value, k: Value, v: Value, core: Core) -> Value:
    """The result, [b, queries, a, e]; ``k`` and ``v`` may have fewer heads."""
    kind = q.kind
    mask = _mask(r, name, kind, core)
    q32, k32, v32 = (cast(r, f"{name} {x} fp32", y, "fp32") for x, y in zip("qkv", (q, k, v), strict=True))
    scaled = unary(r, f"{name} q scaled", q32)
    is_shared = r.sizes.bytes("a") != r.sizes.bytes(k.dims.split()[2])
    keys, values = k32, v32
    if is_shared and not core.has_mask:  # ``enable_gqa``: repeat_interleave
        keys = copy(r, f"{name} k repeated", k32, f"b {core.keys} a d")
        values = copy(r, f"{name} v repeated", v32, f"b {core.keys} a e")
    scaled_keys = unary(r, f"{name} k scaled", keys)
    lies = is_shared and keys is not k32
    q_batched = _batched(r, f"{name} q batched", scaled, f"b {core.queries} a d", lies=core.by_heads)
    k_batched = _batched(r, f"{name} k batched", scaled_keys, f"b {core.keys} a d", lies=lies)
    scores = product(r, f"{name} scores", q_batched, k_batched, f"b a {core.queries} {core.keys}")
    weights = _softmax(r, f"{name} softmax", scores)
    dropped = dropout(r, f"{name} dropout", weights, core.dropout)
    narrow = (
        r.run(f"{name} weights in the result's type", (dropped,), dropped.dims, kind)
        if kind != "fp32"
        else None
    )
    batched = _batched(
        r, f"{name} v batched", values, f"b {core.keys} a e", lies=is_shared and values is not v32
    )
    out = product(r, f"{name} values", dropped, batched, f"b {core.queries} a e")
    result = cast(r, f"{name} by heads", out, kind)
    held = [
        q32,
        k32,
        v32,
        scaled,
        keys,
        values,
        dropped,
        *([mask] if mask else []),
        *([narrow] if narrow else []),
    ]
    r.hold(*held)
    return copy(r, name, result)


def _mask(r: Recorder, name: str, kind: str, core: Core) -> Value | None:
    """What is added to the scores: of the call's mask in its type, or a causal one in fp32."""
    if core.has_mask:
        return r.run(f"{name} added mask", (), f"b {core.queries} {core.keys}", kind)
    if not core.is_causal:
        return None
    bools = r.bytes(f"{core.queries} {core.keys}", "bool")
    return r.run(f"{name} added mask", (), f"{core.queries} {core.keys}", "fp32", scratch_bytes=bools)


def _batched(r: Recorder, name: str, x: Value, dims: str, *, lies: bool) -> Value:
    """``matmul`` makes [b*a, ...] of it: a copy where heads lie inside the sequence, or are expanded."""
    if lies or (r.sizes.bytes("b") == 1 and r.sizes.bytes(x.dims) == r.sizes.bytes(dims)):
        return x
    is_expanded = r.sizes.bytes(x.dims) != r.sizes.bytes(dims)
    return copy(r, name, x, dims) if is_expanded else copy(r, name, x)


def _softmax(r: Recorder, name: str, x: Value) -> Value:
    """``_safe_softmax``: saves its result; on CUDA it looks for rows without a finite score."""
    result = Value(name, x.dims, x.kind)
    looked = r.bytes(x.dims, "bool")
    back = Backward((result,), kernel_bytes=r.bytes_of(x))
    return r.run(name, (x,), x.dims, x.kind, back, kernel_bytes=looked)


def product(r: Recorder, name: str, one: Value, other: Value, dims: str) -> Value:
    """``bmm``: it saves both."""
    saves = (*((other,) if one.trains else ()), *((one,) if other.trains else ()))
    return r.run(name, (one, other), dims, one.kind, Backward(saves))
