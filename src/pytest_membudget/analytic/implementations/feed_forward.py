"""Feed-forward blocks as transformers 5.23.0 writes them."""

from __future__ import annotations

from ..model import FeedForward
from .activations import activate
from .linears import linear
from .operators import multiply
from .recorder import Recorder, Value


def feed_forward(r: Recorder, x: Value, shape: FeedForward, prefix: str = "", width: str = "f") -> Value:
    """``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))``."""
    bias, name = shape.bias, lambda part: prefix + part
    if not shape.gated:
        up = linear(r, name("up_proj"), x, width, "h", bias=bias)
        middle = activate(r, name("act_fn"), up, shape.activation)
        r.hold(up)
    elif shape.fused_gate_up:
        middle = _fused(r, x, shape, prefix, width)
    else:
        gate = linear(r, name("gate_proj"), x, width, "h", bias=bias)
        acted = activate(r, name("act_fn"), gate, shape.activation)
        up = linear(r, name("up_proj"), x, width, "h", bias=bias)
        middle = multiply(r, name("gate * up"), acted, up)
    return linear(r, name("down_proj"), middle, "h", width, bias=bias)


def _fused(r: Recorder, x: Value, shape: FeedForward, prefix: str, width: str) -> Value:
    """Phi-3: one projection in two chunks; their gradients are put together."""
    both = linear(r, f"{prefix}gate_up_proj", x, f"2 {width}", "h", bias=shape.bias)
    up = Value(f"{prefix}up", f"b s {width}", both.kind, both.trains)
    gate = r.run(f"{prefix}gate", (both,), up.dims, both.kind, view_of=both, makes=(up,))
    acted = activate(r, f"{prefix}act_fn", gate, shape.activation)
    return multiply(r, f"{prefix}up * gate", up, acted)
