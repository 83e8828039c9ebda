"""Normalisations as implementations write them: each keeps other copies of its input.

Transformers' RMS norms (5.23.0) are Python: to fp32, square, mean, rsqrt, times, back, times the weight, each
an operator of autograd; which of the last two comes first differs by family.
"""

from __future__ import annotations

from typing import Literal

from ..model import Norm
from ..tape import Tensor
from .operators import cast, scale, unary, weigh
from .recorder import Backward, Recorder, Value

#: ``llama``: the weight times what was cast back. ``gemma``: (1 + weight) in fp32, then cast back. ``olmo``:
#: the weight in fp32, then cast back. ``t5``: the input is not cast itself, only what is squared. ``fused``:
#: ``torch.nn.RMSNorm``, one kernel.
RmsStyle = Literal["llama", "gemma", "olmo", "t5", "fused"]


def norm(r: Recorder, name: str, x: Value, kind: Norm, width: str, style: RmsStyle = "llama") -> Value:
    """A norm over the last dimensions ``width``."""
    if kind.kind == "layer":
        return layer_norm(r, name, x, kind, width)
    if style == "fused":
        return fused_rms_norm(r, name, x, width)
    return rms_norm(r, name, x, width, style, has_weight=kind.has_weight)


def rms_norm(
    r: Recorder, name: str, x: Value, width: str, style: RmsStyle, *, has_weight: bool = True
) -> Value:
    """Transformers' RMS norm, operator by operator."""
    wide = cast(r, f"{name} fp32", x, "fp32")
    squares = unary(r, f"{name} squares", wide, "input", scratch=2)
    rows = _rows(wide.dims, width)
    mean = r.run(f"{name} mean", (squares,), rows, "fp32")
    factor = unary(r, f"{name} rsqrt", mean, "result")
    scaled = scale(r, f"{name} scaled", x if style == "t5" else wide, factor)
    if style != "t5":
        r.hold(wide)
    if style == "gemma":
        scaled = _kept_too(r, f"{name} 1 + weight", scaled, width)
    if style in ("gemma", "olmo") and has_weight:
        weighed = weigh(r, name, scaled, width, kind="fp32")
        r.hold(scaled) if style == "olmo" else None
        result = cast(r, f"{name} back", weighed, x.kind)
        r.hold(weighed)
        return result
    back = cast(r, f"{name} back", scaled, r.setting.stored if style == "t5" else x.kind)
    if not has_weight:
        return back
    result = weigh(r, name, back, width)
    r.hold(scaled if style != "t5" else back, until=result)
    return result


def _kept_too(r: Recorder, name: str, x: Value, width: str) -> Value:
    """Gemma multiplies by ``1 + weight.float()``, which is saved."""
    return r.run(
        name,
        (x,),
        x.dims,
        x.kind,
        Backward(keeps=(Value(f"{name} fp32", width, "fp32"),), hands_on=True),
        view_of=x,
    )


def layer_norm(r: Recorder, name: str, x: Value, kind: Norm, width: str) -> Value:
    """``native_layer_norm``: the input, and two fp32 numbers a row; under autocast in fp32."""
    setting = r.setting
    x = cast(r, f"{name} fp32", x, "fp32") if setting.autocast else x
    rows = _rows(x.dims, width)
    keeps = (Value(f"{name} mean", rows, "fp32"), Value(f"{name} rstd", rows, "fp32"))
    return _fused(r, name, x, keeps, width, has_bias=kind.bias, has_weight=kind.has_weight)


def fused_rms_norm(r: Recorder, name: str, x: Value, width: str) -> Value:
    """``_fused_rms_norm``: the input, and one fp32 number a row; under autocast in fp32."""
    x = cast(r, f"{name} fp32", x, "fp32") if r.setting.autocast else x
    keeps = (Value(f"{name} rstd", _rows(x.dims, width), "fp32"),)
    return _fused(r, name, x, keeps, width, has_bias=False, has_weight=True)


def _fused(
    r: Recorder,
    name: str,
    x: Value,
    keeps: tuple[Value, ...],
    width: str,
    *,
    has_bias: bool,
    has_weight: bool,
) -> Value:
    weights: tuple[Tensor, ...] = ()
    if r.setting.trains and has_weight:
        names = (f"{name}.weight", *((f"{name}.bias",) if has_bias else ()))
        weights = tuple(r.weight(each, width, r.setting.stored) for each in names)
    return r.run(name, (x,), x.dims, x.kind, Backward((x,), keeps, weights))


def _rows(dims: str, width: str) -> str:
    """The dimensions before ``width``: one number each."""
    return f"{dims.removesuffix(width).strip()} 1"
