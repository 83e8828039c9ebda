"""Rotary positions as implementations turn queries and keys: tensors on the way, and none kept.

The tables of cosines and sines are saved by all layers: they are the embedding block's.
"""

from __future__ import annotations

from .operators import add, cut
from .recorder import Backward, Recorder, Value, wider


def turned(r: Recorder, name: str, x: Value, table: str, width: str) -> Value:
    """Transformers' ``x * cos + rotate_half(x) * sin`` over the last dimension ``width``.

    ``table`` is the tables' number type.
    """
    kind = wider(x.kind, table)
    heads = x.dims.rsplit(" ", 1)[0]
    part = f"{heads} {r.sizes.bytes(width) // 2}"
    straight = _times(r, f"{name} * cos", x, kind)
    first = cut(r, f"{name} first half", x, part)
    second = cut(r, f"{name} second half", x, part)
    negative = r.run(f"{name} negated", (second,), part, x.kind)
    rotated = r.run(f"{name} rotated", (negative, first), x.dims, x.kind, Backward(hands_on=True))
    crossed = _times(r, f"{name} rotated * sin", rotated, kind)
    return add(r, f"{name} turned", straight, crossed)


def parted(r: Recorder, name: str, x: Value, width: str) -> tuple[Value, Value]:
    """The part of each head that turns, and the rest; :func:`rejoined` ends it."""
    heads, whole = x.dims.rsplit(" ", 1)
    rest = r.sizes.bytes(whole) - r.sizes.bytes(width)
    turning = cut(r, f"{name} turning", x, f"{heads} {width}")
    passing = cut(r, f"{name} passing", x, f"{heads} {rest}")
    return turning, passing


def rejoined(r: Recorder, name: str, parts: tuple[Value, Value], x: Value) -> Value:
    """``torch.cat`` of both parts."""
    kind = parts[0].kind
    return r.run(f"{name} joined", parts, x.dims, kind, Backward(hands_on=True))


def _times(r: Recorder, name: str, x: Value, kind: str) -> Value:
    """Times a table that all layers share; a gradient in a wider type is cast back."""
    scratch = r.bytes(x.dims, kind) if kind != x.kind else 0
    return r.run(name, (x,), x.dims, kind, Backward(scratch_bytes=scratch))
