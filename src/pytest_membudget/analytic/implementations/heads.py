"""The end of a model: final norm, head, loss."""

from __future__ import annotations

from ..model import Model
from .linears import cast, linear
from .operators import unary
from .recorder import Backward, Recorder, Value


def cross_entropy(r: Recorder, name: str, logits: Value) -> Value:
    """``F.cross_entropy``: log-softmax, which is saved, and ``nll_loss``; [1] in the logits' type."""
    chances = Value(f"{name} log_softmax", logits.dims, logits.kind)
    chances = r.run(chances.name, (logits,), logits.dims, logits.kind, Backward((chances,)))
    return r.run(name, (chances,), "1", logits.kind, Backward((chances,)))


def full_loss(r: Recorder, hidden: Value, model: Model, width: str, *, upcasts: bool) -> Value:
    """All logits at once: the head, a copy in fp32, cross entropy; both copies are held until the loss is."""
    logits = linear(r, "lm_head", hidden, "V", width, bias=model.head_bias, joins=model.tied)
    if model.final_softcap:
        logits = unary(r, "logits / cap", logits)
        logits = unary(r, "logits tanh", logits, "result")
        logits = unary(r, "logits * cap", logits)
    wide = cast(r, "logits fp32", logits, "fp32") if upcasts else logits
    loss = cross_entropy(r, "loss", wide)
    r.hold(logits, wide, until=loss)
    return loss
