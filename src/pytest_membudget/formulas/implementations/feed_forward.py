"""Feed-forward blocks as transformers 5.23.0 writes them."""

from __future__ import annotations

from ..model import FeedForward
from .activations import activate
from .linears import linear
from .operators import dropout, multiply
from .recorder import Recorder, Value


def feed_forward(
    r: Recorder,
    x: Value,
    shape: FeedForward,
    prefix: str = "",
    *,
    flat: bool = False,
    inner_dropout: float = 0.0,
) -> Value:
    """``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))``; ``flat``: over tokens of all sequences.

    ``inner_dropout``: on the product (T5).
    """
    bias, width = shape.bias, "f"

    def name(part: str) -> str:
        return prefix + part

    if not shape.gated:
        up = linear(r, name("up_proj"), x, width, "h", bias=bias, flat=flat)
        middle = activate(r, name("act_fn"), up, shape.activation)
        r.hold(up)
    elif shape.fused_gate_up:
        middle = _fused(r, x, shape, prefix)
    else:
        gate = linear(r, name("gate_proj"), x, width, "h", bias=bias, flat=flat)
        acted = activate(r, name("act_fn"), gate, shape.activation)
        up = linear(r, name("up_proj"), x, width, "h", bias=bias, flat=flat)
        middle = multiply(r, name("gate * up"), acted, up)
    if inner_dropout:
        dropped = dropout(r, name("inner dropout"), middle, inner_dropout)
        middle = dropped
    return linear(r, name("down_proj"), middle, "h", width, bias=bias, flat=flat)


def _fused(r: Recorder, x: Value, shape: FeedForward, prefix: str) -> Value:
    """Phi-3: one projection in two chunks; their gradients are put together."""
    both = linear(r, f"{prefix}gate_up_proj", x, "2 f", "h", bias=shape.bias)
    up = Value(f"{prefix}up", "b s f", both.kind, both.trains)
    gate = r.run(f"{prefix}gate", (both,), up.dims, both.kind, view_of=both, makes=(up,))
    acted = activate(r, f"{prefix}act_fn", gate, shape.activation)
    return multiply(r, f"{prefix}up * gate", up, acted)
