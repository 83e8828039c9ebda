"""Activation functions by their names: what each saves (activations.py of transformers 5.23.0)."""

from __future__ import annotations

from ...errors import UsageMistake
from .operators import add, cast, multiply, unary
from .recorder import Backward, Recorder, Value

_SAVES_INPUT = frozenset({"silu", "swish", "gelu", "gelu_pytorch_tanh", "gelu_accurate", "mish"})
_SAVES_RESULT = frozenset({"relu", "tanh", "sigmoid"})


def activate(r: Recorder, name: str, x: Value, activation: str) -> Value:
    """``activation(x)``. Raises ``UsageMistake`` for one that is not known."""
    if activation in _SAVES_INPUT:
        return unary(r, name, x, "input")
    if activation in _SAVES_RESULT:
        return unary(r, name, x, "result")
    if activation == "gelu_new":
        return _new_gelu(r, name, x)
    known = ", ".join(sorted({*_SAVES_INPUT, *_SAVES_RESULT, "gelu_new"}))
    raise UsageMistake(f"the activation {activation!r} is not known; write one of {known}")


def _new_gelu(r: Recorder, name: str, x: Value) -> Value:
    """``0.5 * x * (1 + tanh(c * (x + 0.044715 * x**3)))``, in Python: saves three tensors besides x."""
    half = unary(r, f"{name} half", x)
    cubed = cast(r, f"{name} fp32", x, "fp32") if r.setting.autocast else x  # autocast takes ``pow`` in fp32
    cube = unary(r, f"{name} cube", cubed, "input", scratch=2)
    scaled = unary(r, f"{name} cube scaled", cube)
    inner = add(r, f"{name} inner", x, scaled)
    inner = unary(r, f"{name} inner scaled", inner)
    squeezed = unary(r, f"{name} tanh", inner, "result")
    outer = _shifted(r, f"{name} 1 + tanh", squeezed)
    return multiply(r, name, half, outer)


def _shifted(r: Recorder, name: str, x: Value) -> Value:
    """A number added: its gradient is handed on."""
    return r.run(name, (x,), x.dims, x.kind, Backward(hands_on=True))
