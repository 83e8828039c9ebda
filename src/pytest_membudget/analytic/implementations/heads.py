"""The end of a model: final norm, head, loss."""

from __future__ import annotations

from ..job import Loss
from ..model import Model
from ..tape import Tape
from .activations import activate
from .linears import cast, linear
from .norms import norm
from .operators import cut, unary
from .recorder import Backward, Recorder, Value
from .setting import Setting
from .styles import Style


def head_tape(setting: Setting, model: Model, style: Style, loss: Loss) -> Tape:
    """From [b, s, h] to the loss, [1]; without a head to the hidden states."""
    hidden_dims = model.head_hidden or 0
    sizes = {"V": -(-model.vocab // setting.tensor_parallel), "i": model.embedding_dim or 0, "j": hidden_dims}
    r = Recorder(setting, **sizes, C=model.classes, O=model.pooler_size or model.hidden)
    hidden = r.input("hidden_states", "b s h", setting.residual)
    if model.decoder.final_norm is not None:
        hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", style.rms)
    if model.classes:
        return r.tape(_classified(r, hidden, model))
    if not model.has_head or loss.kind == "none":
        return r.tape(hidden)
    width = "h"
    if model.embedding_dim not in (None, model.hidden):
        hidden, width = linear(r, "project_out", hidden, "i", "h"), "i"
    if model.head_hidden is not None:
        hidden, width = _transformed(r, hidden, model), "j"
    upcasts = loss.upcasts and style.upcasts
    return r.tape(full_loss(r, hidden, model, width, upcasts=upcasts))


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


def cross_entropy(r: Recorder, name: str, logits: Value) -> Value:
    """``F.cross_entropy``: log-softmax, which is saved, and ``nll_loss``; autocast takes both in fp32."""
    if r.setting.autocast:
        logits = cast(r, f"{name} fp32", logits, "fp32")
    chances = Value(f"{name} log_softmax", logits.dims, logits.kind)
    chances = r.run(chances.name, (logits,), logits.dims, logits.kind, Backward((chances,)))
    return r.run(name, (chances,), "1", logits.kind, Backward((chances,)))


def _transformed(r: Recorder, hidden: Value, model: Model) -> Value:
    """BERT's prediction head: a dense layer, GELU, a norm."""
    dense = linear(r, "transform.dense", hidden, "j", "h", bias=True)
    acted = activate(r, "transform.act", dense, "gelu")
    if model.head_norm is None:
        return acted
    return norm(r, "transform.norm", acted, model.head_norm, "j")


def _classified(r: Recorder, hidden: Value, model: Model) -> Value:
    """Classes of a sequence by its first token (ViT, BERT's pooler); tokens by token alike."""
    first = cut(r, "first token", hidden, "b h")
    width = "h"
    if model.has_pooler:
        first = activate(r, "pooler.act", linear(r, "pooler", first, "O", "h", bias=True, flat=True), "tanh")
        width = "O"
    if model.head_hidden is not None:
        first = activate(r, "dense.act", linear(r, "dense", first, "j", width, bias=True, flat=True), "tanh")
        width = "j"
    logits = linear(r, "classifier", first, "C", width, bias=model.head_bias, flat=True)
    return cross_entropy(r, "loss", logits)
