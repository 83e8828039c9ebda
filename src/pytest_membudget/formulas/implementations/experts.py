"""Mixtures of experts as transformers 5.23.0 runs them: ``grouped_mm`` over tokens sorted by expert.

``integrations/moe.py``, ``grouped_mm_experts_forward``: ``K`` rows a token, one product a projection for all
experts. Its sizes depend on no routing.
"""

from __future__ import annotations

from typing import Literal

from ..model import Experts, FeedForward
from .activations import activate
from .feed_forward import feed_forward
from .linears import linear
from .operators import add, cast, multiply, scale, softmax, unary
from .recorder import Backward, Recorder, Value

_INT64 = 8

#: How the router chooses. ``softmax``: of all, then the highest (Qwen; ``normalised`` divides them by their
#: sum, in place). ``sigmoid``: DeepSeek-V3. ``plain``: DeepSeek-V2.
Routing = Literal["softmax", "normalised", "normalised in fp32", "sigmoid", "plain"]


def expert_sizes(shape: Experts, tensor_parallel: int) -> dict[str, int]:
    """Experts ``E``, rows a token ``K``, intermediate ``m`` of one and ``f`` of the shared ones."""
    return {
        "E": shape.count,
        "K": shape.per_token,
        "m": -(-shape.intermediate // tensor_parallel),
        "f": -(-shape.shared_intermediate // tensor_parallel),
    }


def mixture(r: Recorder, x: Value, shape: Experts, routing: Routing) -> Value:
    """Router, experts, shared experts, their sum."""
    flat = r.run("tokens", (x,), x.dims, x.kind, Backward(hands_on=True), view_of=x)
    if shape.shared_gate:  # Qwen2: the shared expert first, its gate last
        shared = feed_forward(r, flat, _shared(shape), "shared_expert.", flat=True)
        routed = _routed(r, flat, shape, routing)
        return _gated_sum(r, flat, routed, shared)
    routed = _routed(r, flat, shape, routing)
    if not shape.shared_intermediate:
        return routed
    shared = feed_forward(r, x, _shared(shape), "shared_experts.")
    result = add(r, "routed + shared", routed, shared)
    r.hold(routed)
    return result


def _shared(shape: Experts) -> FeedForward:
    return FeedForward(shape.shared_intermediate, shape.gated, shape.activation, shape.bias)


def _gated_sum(r: Recorder, x: Value, routed: Value, shared: Value) -> Value:
    gate = linear(r, "shared_expert_gate", x, "1", "h", flat=True)
    opened = unary(r, "shared_expert_gate sigmoid", gate, "result")
    weighted = scale(r, "shared_expert weighted", shared, opened)
    result = add(r, "routed + shared", routed, weighted)
    r.hold(routed, weighted)
    return result


def _routed(r: Recorder, x: Value, shape: Experts, routing: Routing) -> Value:
    weights, places = _router(r, x, routing)
    return _experts(r, x, weights, places, shape)


def _router(r: Recorder, x: Value, routing: Routing) -> tuple[Value, Value]:
    """The chosen experts' weights [b, s, K], and their numbers."""
    if routing in ("sigmoid", "plain"):
        return _deepseek_router(r, x, routing)
    logits = linear(r, "router", x, "E", "h", flat=True)
    wide = cast(r, "router fp32", logits, "fp32")
    chances = softmax(r, "router softmax", wide)
    top, places = _highest(r, chances)
    if routing != "softmax":
        top = _normalised(r, top)
    weights = cast(r, "router weights", top, logits.kind) if routing != "normalised in fp32" else top
    return weights, places


def _deepseek_router(r: Recorder, x: Value, routing: Routing) -> tuple[Value, Value]:
    """In fp32, from an fp32 copy of the tokens and of the weight."""
    wide = cast(r, "router input fp32", x, "fp32")
    weight_dims, stored = "E h", r.setting.stored
    trains = r.setting.trains
    gradient = (r.weight("router.weight", weight_dims, stored),) if trains else ()
    weight = r.run("router weight fp32", (), weight_dims, "fp32", Backward(weights=gradient))
    saves = (*((wide,) if trains else ()), *((weight,) if x.trains else ()))
    logits = r.run("router", (wide, weight), "b s E", "fp32", Backward(saves))
    scores = (
        softmax(r, "router scores", logits)
        if routing == "plain"
        else unary(r, "router scores", logits, "result")
    )
    top, places = _highest(r, scores)
    if routing == "sigmoid":
        top = _normalised(r, top)
    return unary(r, "router weights", top), places


def _highest(r: Recorder, chances: Value) -> tuple[Value, Value]:
    """``topk`` (or ``gather``): numbers saved; in backward zeros like all."""
    places = Value("router places", "b s K", "int64", trains=False)
    top = r.run("router highest", (chances,), "b s K", chances.kind, Backward((places,)), makes=(places,))
    return top, places


def _normalised(r: Recorder, top: Value) -> Value:
    """``top /= top.sum(-1)``: divided in place, what was there is copied for backward."""
    copy = Value("router highest before", top.dims, top.kind)
    total = Value("router sum", "b s", top.kind)
    back = Backward(keeps=(copy, total), scratch_bytes=r.bytes_of(top))
    return r.run("router highest divided", (top,), top.dims, top.kind, back, view_of=top)


def _experts(r: Recorder, x: Value, weights: Value, places: Value, shape: Experts) -> Value:
    """Tokens sorted by expert, both projections, back in order, summed over each token's experts."""
    rows = "b s K"
    sorting = r.bytes(rows, "int64")
    order = Value("expert order", rows, "int64", trains=False)
    numbers = r.run("expert numbers sorted", (places,), rows, "int64", makes=(order,), kernel_bytes=sorting)
    token_of = r.run("token of each row", (order,), rows, "int64")
    put = (sorting,) * 4  # index_put: positions, sorted, their order, a range
    chosen = r.run(
        "tokens by expert", (x, token_of), f"{rows} h", x.kind, Backward((token_of,), kernel_parts=put)
    )
    ordered = r.run(
        "weights by expert", (weights, order), rows, weights.kind, Backward((order,), kernel_parts=put)
    )
    both = _grouped(
        r,
        "experts.gate_up_proj" if shape.gated else "experts.up_proj",
        chosen,
        "2 m" if shape.gated else "m",
        "h",
    )
    middle = _gated(r, both, shape) if shape.gated else activate(r, "experts.act_fn", both, shape.activation)
    down = _grouped(r, "experts.down_proj", middle, "h", "m")
    weighted = scale(r, "rows weighted", down, Value(ordered.name, f"{rows} 1", ordered.kind, ordered.trains))
    back = r.run("rows' old order", (), rows, "int64")
    restored = r.run(
        "rows in order", (weighted, back), weighted.dims, weighted.kind, Backward((back,), kernel_parts=put)
    )
    # the sum's gradient is expanded, and copied to be one of rows
    whole = r.run("rows of tokens", (restored,), restored.dims, restored.kind, view_of=restored)
    summed = r.run("rows summed", (whole,), x.dims, whole.kind, Backward(hands_on=True))
    result = cast(r, "experts", summed, x.kind)
    r.hold(numbers, order, token_of, chosen, ordered, restored, down)
    return result


def _gated(r: Recorder, both: Value, shape: Experts) -> Value:
    part = both.dims.replace("2 m", "m")
    up = Value("experts up", part, both.kind, both.trains)
    gate = r.run("experts gate", (both,), part, both.kind, view_of=both, makes=(up,))
    acted = activate(r, "experts.act_fn", gate, shape.activation)
    return multiply(r, "experts gate * up", acted, up)


def _grouped(r: Recorder, name: str, x: Value, outputs: str, inputs: str) -> Value:
    """``grouped_mm``: in the weights' own type, under autocast too."""
    setting = r.setting
    x = cast(r, f"{name} input cast", x, setting.stored)
    rows = x.dims.removesuffix(inputs).strip()
    saves = (x,) if setting.trains else ()
    weights = (r.weight(f"{name}.weight", f"E {outputs} {inputs}", setting.stored),) if setting.trains else ()
    return r.run(name, (x,), f"{rows} {outputs}", x.kind, Backward(saves, weights=weights))
