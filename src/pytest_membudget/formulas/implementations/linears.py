"""Linear layers and embeddings: as they are, under autocast, with low-rank adapters, quantised.

``F.linear`` over three dimensions is a view, ``mm`` (``addmm`` with a bias) and a view
(ATen/native/Linear.cpp, torch 2.13): it saves its input for the weight's gradient and the weight for the
input's. Adapters are peft's ``Linear.forward`` (peft/tuners/lora/layer.py, 0.21); quantised layers
bitsandbytes' ``Linear4bit`` and ``Linear8bitLt`` (nn/modules.py and autograd/_functions.py, 0.50).
"""

from __future__ import annotations

from ..kernels.column_sum import column_sum
from ..kernels.embeddings import embedding_backward
from ..tape import Tensor
from .operators import add, cast, dropout, unary
from .recorder import END, Backward, Joins, Recorder, Value


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
    weight: Value | None = None,
) -> Value:
    """``nn.Linear``: the last dimensions of ``x`` (``inputs``) become ``outputs``.

    ``joins``: tied, the head's. ``flat``: of two dimensions, which need no view. ``weight``: one that others
    use too.
    """
    setting = r.setting
    is_head = name.startswith("lm_head")
    if setting.quantised is not None and not is_head:
        result = _quantised(r, name, x, outputs, inputs)
    else:
        result = product(r, name, x, outputs, inputs, bias=bias, joins=joins, flat=flat, weight=weight)
    if setting.adapter is None or name not in setting.adapts:
        return result
    result = _adapted(r, name, x, result, outputs, inputs)
    r.hold(x)  # the module's argument
    return result


def product(
    r: Recorder,
    name: str,
    x: Value,
    outputs: str,
    inputs: str,
    *,
    bias: bool = False,
    joins: bool = False,
    flat: bool = False,
    stored: str | None = None,
    trains: bool | None = None,
    weight: Value | None = None,
) -> Value:
    """The product itself; ``stored`` and ``trains`` are the weight's: the setting's where not given."""
    setting = r.setting
    stored = setting.stored if stored is None else stored
    trains = setting.trains if trains is None else trains
    kind = setting.autocast or stored
    x = cast(r, f"{name} input cast", x, kind)
    dims = f"{outputs} {inputs}"
    rows = x.dims.removesuffix(inputs).strip()
    waits: Joins = "waits" if joins else None
    weights = [r.weight(f"{name}.weight", dims, stored, joins=waits)] if trains and weight is None else []
    reads, saves = [x], []
    if weight is None and kind != stored:  # autocast's copy is cached until autocast ends
        weight = r.run(f"{name}.weight cast", (), dims, kind, Backward(weights=tuple(weights)))
        if weights:
            r.hold(weight, until=END)
        weights = []
    if weight is not None:
        reads.append(weight)
        saves += [weight] if x.trains else []
    saves += [x] if trains else []
    sums: tuple[int, ...] = ()
    if bias and trains:
        weights.append(r.weight(f"{name}.bias", outputs, stored))
        element = r.bytes("1", kind)
        sums = column_sum(r.sizes.bytes(rows), r.sizes.bytes(outputs), element, setting.gpu)
    back = Backward(
        tuple(saves),
        weights=tuple(weights),
        gives_views=not flat,
        weights_first=not bias,  # ``mm``: mat2, self; with a bias ``addmm``: mat1, mat2, self
        sum_parts=sums,
    )
    return r.run(name, reads, f"{rows} {outputs}", kind, back)


def shared_weight(r: Recorder, name: str, dims: str, *, joins: bool) -> Value:
    """A weight for several products: as it is, or autocast's copy; its gradients are summed up first."""
    setting = r.setting
    weights: tuple[Tensor, ...] = ()
    waits: Joins = "waits" if joins else None
    if setting.trains:
        weights = (r.weight(f"{name}.weight", dims, setting.stored, joins=waits),)
    if setting.autocast:
        return r.run(f"{name}.weight cast", (), dims, setting.product, Backward(weights=weights))
    parameter = r.input(f"{name} parameter", "0", setting.stored, trains=bool(weights))
    back = Backward(weights=weights, hands_on=True)
    return r.run(f"{name} used", (), dims, setting.stored, back, view_of=parameter)


def _adapted(r: Recorder, name: str, x: Value, result: Value, outputs: str, inputs: str) -> Value:
    """``result + B(A(dropout(x))) * scaling``, in the adapters' type, then back to the result's."""
    setting = r.setting
    adapter = setting.adapter
    assert adapter is not None
    kind = adapter.number_type
    x = cast(r, f"{name} adapter input", x, kind)
    dropped = dropout(r, f"{name} adapter dropout", x, adapter.dropout)
    rank = str(adapter.rank)
    down = product(r, f"{name} lora_A", dropped, rank, inputs, stored=kind, trains=True)
    up = product(r, f"{name} lora_B", down, outputs, rank, stored=kind, trains=True)
    scaled = unary(r, f"{name} scaled", up)
    total = add(r, f"{name} adapted", result, scaled)
    r.hold(result, x)
    return cast(r, f"{name} adapted back", total, result.kind)


def _quantised(r: Recorder, name: str, x: Value, outputs: str, inputs: str) -> Value:
    """The weight is made whole again for the time of each product, forward and backward, and never saved."""
    setting = r.setting
    kind = setting.compute
    whole = r.bytes(f"{outputs} {inputs}", kind)
    narrow = cast(r, f"{name} input cast", x, kind)
    rows = narrow.dims.removesuffix(inputs).strip()
    scratch = whole
    if setting.quantised == "int8":  # int8 rows, and int32 sums before they are scaled
        scratch = r.bytes(narrow.dims, "int8") + r.bytes(f"{rows} {outputs}", "int32")
    if setting.quantised == "nf4-double":
        scratch += r.bytes(f"{outputs} {inputs}", "fp32") // 64  # the blocks' scales
    back = Backward(scratch_bytes=whole, gives_views=True)
    result = r.run(name, (narrow,), f"{rows} {outputs}", kind, back, scratch_bytes=scratch)
    return cast(r, f"{name} back", result, x.kind)


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
    if not setting.trains:
        return r.run(name, (tokens,), f"{tokens.dims} {width}", setting.stored)
    gradient = r.weight(f"{name}.weight", f"{rows} {width}", setting.stored, joins="ends" if joins else None)
    element = r.bytes("1", setting.stored)
    count, table, columns = (r.sizes.bytes(dims) for dims in (tokens.dims, rows, width))
    kernel = embedding_backward(count, table, columns, element, setting.gpu)
    back = Backward((tokens,) if saves_rows else (), weights=(gradient,), kernel_parts=kernel)
    return r.run(name, (tokens,), f"{tokens.dims} {width}", setting.stored, back)
