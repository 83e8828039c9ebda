"""Linear layers and embeddings: as they are, under autocast, with low-rank adapters, quantised.

``F.linear`` over three dimensions is a view, ``mm`` (``addmm`` with a bias) and a view (ATen/native/Linear.cpp,
torch 2.13): it saves its input for the weight's gradient and the weight for the input's.
"""

from __future__ import annotations

from .kernels import column_sum_bytes, embedding_backward_bytes
from .recorder import Backward, Recorder, Value


def linear(
    r: Recorder,
    name: str,
    x: Value,
    outputs: str,
    inputs: str,
    *,
    bias: bool = False,
    joins: bool = False,
    flat: bool = False,
) -> Value:
    """``nn.Linear``: the last dimensions of ``x`` (``inputs``) become ``outputs``.

    ``joins``: tied, the head's. ``flat``: of two dimensions, which need no view.
    """
    setting = r.setting
    kind = setting.product
    x = cast(r, f"{name} input cast", x, kind)
    weight_dims = f"{outputs} {inputs}"
    trains = setting.trains
    rows = x.dims.removesuffix(inputs).strip()
    dims = f"{rows} {outputs}"
    reads, saves, weights = [x], [], []
    if kind != setting.stored:
        weight = cast_weight(r, name, weight_dims, kind, joins=joins)
        reads.append(weight)
        saves += [x] if trains else []
        saves += [weight] if x.trains else []
    elif trains:
        saves.append(x)
        weights.append(r.weight(f"{name}.weight", weight_dims, setting.stored, joins="waits" if joins else None))
    sums = 0
    if bias and trains:
        weights.append(r.weight(f"{name}.bias", outputs, setting.stored))
        sums = column_sum_bytes(r.sizes.bytes(rows), r.sizes.bytes(outputs), setting.gpu)
    back = Backward(tuple(saves), weights=tuple(weights), gives_views=not flat, sum_bytes=sums)
    return r.run(name, reads, dims, kind, back)


def cast_weight(r: Recorder, name: str, dims: str, kind: str, *, joins: bool = False) -> Value:
    """Autocast's copy of a weight; it is cached until autocast ends, and saved where a product needs it."""
    weights = ()
    if r.setting.trains:
        gradient = r.weight(f"{name}.weight", dims, r.setting.stored, joins="waits" if joins else None)
        weights = (gradient,)
    return r.run(f"{name}.weight cast", (), dims, kind, Backward(weights=weights))


def cast(r: Recorder, name: str, x: Value, kind: str) -> Value:
    """``x.to(kind)``: a copy, unless it is so already; its gradient is cast back."""
    if x.kind == kind:
        return x
    return r.run(name, (x,), x.dims, kind)


def embedding(
    r: Recorder,
    name: str,
    tokens: Value,
    rows: str,
    width: str,
    *,
    joins: bool = False,
    saves_rows: bool = False,
) -> Value:
    """``nn.Embedding``: rows of a table of ``rows`` by ``width``. ``joins``: tied, the head uses it later.

    ``saves_rows``: the numbers of its rows are made for it, and saved (tokens are the step's inputs anyway).
    """
    setting = r.setting
    weights = ()
    kernel = 0
    if setting.trains:
        gradient = r.weight(
            f"{name}.weight", f"{rows} {width}", setting.stored, joins="ends" if joins else None
        )
        weights = (gradient,)
        element = r.bytes("1", setting.stored)
        count, table, columns = (r.sizes.bytes(dims) for dims in (tokens.dims, rows, width))
        kernel = embedding_backward_bytes(count, table, columns, element, setting.gpu)
    back = Backward((tokens,) if saves_rows else (), weights=weights, kernel_bytes=kernel)
    return r.run(name, (tokens,), f"{tokens.dims} {width}", setting.stored, back)
