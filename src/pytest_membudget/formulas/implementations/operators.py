"""PyTorch's ordinary operators on a tape: what each saves (tools/autograd/derivatives.yaml, torch 2.13)."""

from __future__ import annotations

from typing import Literal

from ..kernels.column_sum import column_sum
from .recorder import Backward, Recorder, Value, wider

Saves = Literal["input", "result", "nothing"]


def unary(
    r: Recorder, name: str, x: Value, saves: Saves = "nothing", *, scratch: int = 0, kind: str | None = None
) -> Value:
    """An operator on each element; ``scratch``: how many tensors like it its backward makes on the way."""
    result = Value(name, x.dims, kind or x.kind)
    kept = {"input": (x,), "result": (result,), "nothing": ()}[saves]
    parts = (r.bytes_of(x),) * scratch
    return r.run(name, (x,), x.dims, result.kind, Backward(kept, scratch_parts=parts))


def cast(r: Recorder, name: str, x: Value, kind: str) -> Value:
    """``x.to(kind)``: a copy, unless it is so already; its gradient is cast back."""
    return x if x.kind == kind else r.run(name, (x,), x.dims, kind)


def softmax(r: Recorder, name: str, x: Value) -> Value:
    """``_softmax``: saves its result; its backward's kernel multiplies that with the gradient first."""
    result = Value(name, x.dims, x.kind)
    return r.run(name, (x,), x.dims, x.kind, Backward((result,), kernel_bytes=r.bytes_of(x)))


def multiply(r: Recorder, name: str, one: Value, other: Value) -> Value:
    """``one * other`` of the same dimensions, in the wider of their types."""
    kind = wider(one.kind, other.kind)
    saves = (*((other,) if one.trains else ()), *((one,) if other.trains else ()))
    wide = [r.bytes(one.dims, kind) for value in (one, other) if value.trains and value.kind != kind]
    return r.run(name, (one, other), one.dims, kind, Backward(saves, scratch_parts=tuple(wide)))


def scale(r: Recorder, name: str, x: Value, small: Value) -> Value:
    """``x * small``, where ``small`` is broadcast: its gradient is a whole product before it is summed up."""
    kind = wider(x.kind, small.kind)
    saves = (*((small,) if x.trains else ()), *((x,) if small.trains else ()))
    whole = r.bytes(x.dims, kind)
    number = int(small.trains) + int(x.trains and x.kind != kind)
    return r.run(name, (x, small), x.dims, kind, Backward(saves, scratch_parts=(whole,) * number))


def add(r: Recorder, name: str, one: Value, other: Value) -> Value:
    """``one + other``: gradients are handed on, cast for the one of the narrower type."""
    kind = wider(one.kind, other.kind)
    one, other = (_promoted(r, value, kind) for value in (one, other))
    return r.run(name, (one, other), one.dims, kind, Backward(hands_on=True))


def _promoted(r: Recorder, value: Value, kind: str) -> Value:
    """``value`` as it is read in a wider type: no tensor in forward, a cast gradient in backward."""
    if value.kind == kind:
        return value
    return r.run(f"{value.name} promoted", (value,), value.dims, kind, view_of=value)


def weigh(
    r: Recorder, name: str, x: Value, width: str, *, bias: bool = False, kind: str | None = None
) -> Value:
    """``weight * x`` with a weight for each number of the last dimension."""
    stored = r.setting.stored
    kind = wider(x.kind, stored) if kind is None else kind
    if not r.setting.trains:
        return r.run(name, (x,), x.dims, kind)
    rows = r.sizes.bytes(x.dims) // r.sizes.bytes(width)
    back = Backward(
        (x,),
        weights=(r.weight(f"{name}.weight", width, stored),),
        scratch_bytes=r.bytes(x.dims, kind),
        sum_parts=column_sum(rows, r.sizes.bytes(width), r.bytes("1", kind), r.setting.gpu),
    )
    return r.run(name, (x,), x.dims, kind, back)


def copy(r: Recorder, name: str, x: Value, dims: str | None = None) -> Value:
    """``contiguous``: a copy whose gradient is handed on; ``dims``: expanded to them, and summed up back."""
    if dims is None:
        return r.run(name, (x,), x.dims, x.kind, Backward(hands_on=True))
    return r.run(name, (x,), dims, x.kind)


def relayout(r: Recorder, name: str, x: Value) -> Value:
    """A view in forward whose gradient lies otherwise and is copied."""
    return r.run(name, (x,), x.dims, x.kind, view_of=x)


def dropout(r: Recorder, name: str, x: Value, probability: float) -> Value:
    """``native_dropout``: a mask of a byte a number is saved; nothing at all outside training."""
    if not probability or not r.setting.drops:
        return x
    return r.run(name, (x,), x.dims, x.kind, Backward(keeps=(Value(f"{name} mask", x.dims, "bool"),)))


def cut(r: Recorder, name: str, x: Value, dims: str) -> Value:
    """A slice: a view in forward; in backward zeros like the whole, and the gradient in them."""
    return r.run(name, (x,), dims, x.kind, view_of=x)
