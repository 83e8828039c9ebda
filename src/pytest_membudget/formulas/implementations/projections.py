"""Queries, keys and values from the residual stream, as families write it; and back from their gradients.

A view costs nothing in forward. In backward it may: gradients come back from the kernel as [b, s, a, d] or,
from rotary positions, as [b, a, s, d], which are copied before a product reads them; a slice's gradient is
zeros like the whole with the slice filled in (``slice_backward``), a split's is put together once.
"""

from __future__ import annotations

from ..model import Attention
from .linears import linear
from .operators import cut
from .recorder import Backward, Recorder, Value
from .styles import Style

Three = tuple[Value, Value, Value]


def project(r: Recorder, x: Value, shape: Attention, style: Style) -> Three:
    """Queries [b, s, a, d], keys [b, s, g, d] and values [b, s, g, e]."""
    if style.projections == "separate":
        return _separate(r, x, shape)
    names = {"split": "c_attn", "sliced": "qkv_proj"}
    name = names.get(style.projections, "query_key_value")
    whole = linear(r, name, x, "q3", "h", bias=shape.qkv_bias)
    parts = (("q", "b s a d"), ("k", "b s g d"), ("v", "b s g e"))
    if style.projections == "sliced":
        q, k, v = (cut(r, part, whole, dims) for part, dims in parts)
        return q, k, v
    if style.projections == "falcon":
        return _indexed(r, whole, parts)
    return _split(r, whole, parts)


def _indexed(r: Recorder, whole: Value, parts: tuple[tuple[str, str], ...]) -> Three:
    """Falcon: queries sliced, keys and values picked by an index: copies."""
    found = []
    for number, (name, dims) in enumerate(parts):
        if number == 0:
            found.append(cut(r, name, whole, dims))
            continue
        found.append(r.run(name, (whole,), dims, whole.kind))
    return found[0], found[1], found[2]


def _separate(r: Recorder, x: Value, shape: Attention) -> Three:
    bias = shape.qkv_bias
    return (
        linear(r, "q_proj", x, "a d", "h", bias=bias),
        linear(r, "k_proj", x, "g d", "h", bias=bias),
        linear(r, "v_proj", x, "g e", "h", bias=bias),
    )


def _split(r: Recorder, whole: Value, parts: tuple[tuple[str, str], ...]) -> Three:
    """Views of one operator: its backward puts the three gradients together."""
    (first, dims), *others = parts
    views = [Value(name, of, whole.kind, whole.trains) for name, of in others]
    q = r.run(first, (whole,), dims, whole.kind, view_of=whole, makes=views)
    return q, views[0], views[1]


def joined(r: Recorder, name: str, *parts: Value, dims: str) -> Value:
    """``torch.cat``: a copy whose gradient is handed on in slices."""
    return r.run(name, parts, dims, parts[0].kind, Backward(hands_on=True))
