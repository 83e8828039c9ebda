"""The end of a model as blocks: final norm, head, loss; with a teacher its blocks and the divergence.

With a teacher the order is torchtune's (recipes/knowledge_distillation_single_device.py, 00d09d0): the
student's logits, the teacher's forward under ``no_grad``, the divergence, cross entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...components import ACTIVATIONS
from ..model import Model
from ..moments import Block
from ..number_types import bytes_for
from ..stage import Stage
from ..tape import Tape
from ..terms import Term
from .activations import activate
from .linears import linear, shared_weight
from .losses import (
    chunked_cross_entropy,
    chunks_of,
    cross_entropy,
    forward_divergence,
    fused_cross_entropy,
    squeezed,
)
from .norms import norm
from .operators import cast, cut
from .recorder import Backward, Recorder, Value
from .setting import Setting
from .styles import Style

#: From the stream's last value, which it makes an input, to what the head reads; and that one's width.
Normed = Callable[[Recorder], tuple[Value, str]]


def head_recorder(setting: Setting, model: Model) -> Recorder:
    """A recorder with the head's sizes."""
    return Recorder(
        setting,
        V=-(-model.vocab // setting.tensor_parallel),
        i=model.embedding_dim or 0,
        j=model.head_hidden or 0,
        C=model.classes,
        O=model.pooler_size or model.hidden,
    )


def normed_of(model: Model, style: Style) -> Normed:
    """Transformers': the final norm, a projection (OPT), a dense layer and a norm (BERT)."""

    def make(r: Recorder) -> tuple[Value, str]:
        hidden = r.input("hidden_states", "b s h", r.setting.residual)
        if model.decoder.final_norm is not None:
            hidden = norm(r, "norm", hidden, model.decoder.final_norm, "h", style.rms)
        if model.classes or not model.has_head:
            return hidden, "h"
        if model.embedding_dim not in (None, model.hidden):
            return linear(r, "project_out", hidden, "i", "h"), "i"
        if model.head_hidden is not None:
            return _transformed(r, hidden, model), "j"
        return hidden, "h"

    return make


def loss_blocks(
    stage: Stage, setting: Setting, normed: Normed, teacher: Sequence[Block] = (), *, upcasts: bool = True
) -> list[Block]:
    """The blocks from the last layer on; ``upcasts``: the implementation's own loss does."""
    model, loss = stage.job.model, stage.job.loss
    r = head_recorder(setting, model)
    hidden, width = normed(r)
    if model.classes:
        return [Block("head", r.tape(_classified(r, hidden, model)))]
    if not model.has_head or loss.kind == "none":
        return [Block("head", r.tape(hidden))]
    if teacher:
        return _distilled(stage, r, hidden, width, teacher)
    if loss.kind == "fused":
        loss_value = fused_cross_entropy(r, hidden, "V", width, joins=r.setting.shares_table)
        return [Block("head", r.tape(loss_value))]
    logits = logits_of(r, hidden, model, width, loss.chunks if loss.kind == "chunked" else 1)
    if loss.kind == "chunked":
        result = chunked_cross_entropy(r, logits)
    else:
        wide = cast(r, "logits fp32", logits[0], "fp32") if loss.upcasts and upcasts else logits[0]
        result = cross_entropy(r, "loss", wide)
        r.hold(wide, hidden)  # the base model's output is a variable of the forward that takes the loss
    r.hold(*logits)
    return [Block("head", r.tape(result))]


def logits_of(r: Recorder, hidden: Value, model: Model, width: str, chunks: int) -> list[Value]:
    """The head over all tokens, or over each chunk of them."""
    parts = [hidden] if chunks == 1 else chunks_of(r, hidden, chunks)
    if chunks == 1:
        whole = linear(r, "lm_head", hidden, "V", width, bias=model.head_bias, joins=r.setting.shares_table)
        return [squeezed(r, whole) if model.final_softcap else whole]
    weight = shared_weight(r, "lm_head", f"V {width}", joins=r.setting.shares_table)
    found = [
        linear(r, f"lm_head chunk {number}", part, "V", width, bias=model.head_bias, weight=weight)
        for number, part in enumerate(parts)
    ]
    return [squeezed(r, logits) if model.final_softcap else logits for logits in found]


def teacher_head(setting: Setting, model: Model, normed: Normed, chunks: int) -> Tape:
    """The teacher's norm and head: its logits are the outputs."""
    r = head_recorder(setting, model)
    hidden, width = normed(r)
    return r.tape(*logits_of(r, hidden, model, width, chunks))


def _distilled(stage: Stage, r: Recorder, hidden: Value, width: str, teacher: Sequence[Block]) -> list[Block]:
    """Student's logits, teacher, both losses."""
    model, loss = stage.job.model, stage.job.loss
    chunks = loss.chunks if loss.kind == "chunked" else 1
    logits = logits_of(r, hidden, model, width, chunks)
    size = sum(r.bytes_of(part) for part in logits)
    held = Term(ACTIVATIONS, "student's logits", size, f"b*s*V*{logits[0].kind}")
    between = [replace(block, during_forward=(*block.during_forward, held)) for block in teacher]
    return [Block("head", r.tape(*logits)), *between, Block("loss", _distillation(stage, r, logits))]


def _distillation(stage: Stage, head: Recorder, logits: Sequence[Value]) -> Tape:
    """``ForwardKL...Loss`` of each chunk, then cross entropy of each, in fp32 where it is chunked."""
    job = stage.job
    r = Recorder(head.setting, V=head.sizes.bytes("V"))
    kind = job.teacher_type or job.precision.compute_type
    students = [r.input(f"student logits {n}", part.dims, part.kind) for n, part in enumerate(logits)]
    teachers = [
        r.input(f"teacher logits {n}", part.dims, kind, trains=False) for n, part in enumerate(logits)
    ]
    pairs = enumerate(zip(students, teachers, strict=True))
    divergences = [forward_divergence(r, f"divergence {n}", one, other) for n, (one, other) in pairs]
    if job.loss.kind == "chunked":
        plain = chunked_cross_entropy(r, students)
    else:
        wide = cast(r, "logits fp32", students[0], "fp32") if job.loss.upcasts else students[0]
        plain = cross_entropy(r, "cross entropy", wide)
        r.hold(wide)
    result = r.run("both losses", [*divergences, plain], "1", "fp32", Backward(hands_on=True))
    r.hold(*students, *teachers)
    return r.tape(result)


def held_logits(stage: Stage) -> tuple[Term, ...]:
    """Logits that a variable of the loop holds until the next forward is over (``outputs = model(...)``)."""
    job, model = stage.job, stage.job.model
    has_logits = model.has_head and model.vocab and not model.classes
    if not (job.loss.holds_logits and stage.has_head and has_logits and job.loss.kind in ("full", "chunked")):
        return ()
    tokens = job.micro_batch * stage.sequence
    vocab = -(-model.vocab // job.degrees.tensor_parallel_degree)
    kind = job.precision.compute_type
    return (Term(ACTIVATIONS, "logits held", bytes_for(tokens * vocab, kind), f"b*s*V*{kind}"),)


def _transformed(r: Recorder, hidden: Value, model: Model) -> Value:
    """BERT's prediction head: a dense layer, GELU, a norm."""
    dense = linear(r, "transform.dense", hidden, "j", "h", bias=True)
    acted = activate(r, "transform.act", dense, "gelu")
    if model.head_norm is None:
        return acted
    return norm(r, "transform.norm", acted, model.head_norm, "j")


def _classified(r: Recorder, hidden: Value, model: Model) -> Value:
    """Classes of a sequence by its first token (ViT, BERT's pooler), or of each token."""
    first, width = cut(r, "first token", hidden, "b h"), "h"
    if model.has_pooler:
        first = activate(r, "pooler.act", linear(r, "pooler", first, "O", "h", bias=True, flat=True), "tanh")
        width = "O"
    if model.head_hidden is not None:
        first = activate(r, "dense.act", linear(r, "dense", first, "j", width, bias=True, flat=True), "tanh")
        width = "j"
    logits = linear(r, "classifier", first, "C", width, bias=model.head_bias, flat=True)
    return cross_entropy(r, "loss", logits)
