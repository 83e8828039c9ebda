"""Losses of logits: what each keeps, operator by operator.

Cross entropy as PyTorch has it (torch 2.13); chunked cross entropy and divergences as torchtune does
(torchtune/modules/loss, pytorch/torchtune at 104b38f); the fused one as Liger's
(src/liger_kernel/ops/fused_linear_cross_entropy.py, linkedin/Liger-Kernel at 00eba634).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..tape import Tensor
from .operators import cast, copy, unary
from .recorder import Backward, Recorder, Value


def cross_entropy(r: Recorder, name: str, logits: Value) -> Value:
    """``F.cross_entropy``: log-softmax, which is saved, and ``nll_loss``; autocast takes both in fp32."""
    if r.setting.autocast:
        logits = cast(r, f"{name} fp32", logits, "fp32")
    if r.setting.tensor_parallel > 1 and logits.dims.endswith("V"):
        return _of_sharded(r, name, logits)
    chances = Value(f"{name} log_softmax", logits.dims, logits.kind)
    chances = r.run(chances.name, (logits,), logits.dims, logits.kind, Backward((chances,)))
    return r.run(name, (chances,), "1", logits.kind, Backward((chances,)))


def _of_sharded(r: Recorder, name: str, logits: Value) -> Value:
    """``loss_parallel``: shifted logits with their log-softmax, both in fp32; and in backward zeros,
    exponentials and their sum, which is the logits' gradient already.

    ``_log_softmax`` and ``_nll_loss_and_log_softmax_backward``, torch/distributed/tensor/parallel/loss.py,
    torch 2.13.
    """
    own, wide = r.bytes_of(logits), r.bytes_of(Value(name, logits.dims, "fp32"))
    chances = Value(f"{name} log_softmax", logits.dims, logits.kind)
    shifted = wide if own == wide else 3 * wide
    chances = r.run(
        chances.name,
        (logits,),
        logits.dims,
        logits.kind,
        Backward((chances,), hands_on=True),
        scratch_bytes=shifted,
    )
    return r.run(name, (chances,), "1", logits.kind, Backward((chances,), scratch_bytes=2 * own))


def chunked_cross_entropy(r: Recorder, logits: Sequence[Value]) -> Value:
    """``CEWithChunkedOutputLoss``: one chunk's fp32 copy at a time; what each saves stays."""
    losses = []
    for number, part in enumerate(logits):
        wide = cast(r, f"chunk {number} fp32", part, "fp32")
        losses.append(cross_entropy(r, f"loss {number}", wide))
        r.hold(wide)
    return total(r, losses)


def total(r: Recorder, losses: Sequence[Value]) -> Value:
    """Added up: each is a number."""
    return (
        losses[0] if len(losses) == 1 else r.run("loss", losses, "1", losses[0].kind, Backward(hands_on=True))
    )


def forward_divergence(r: Recorder, name: str, student: Value, teacher: Value) -> Value:
    """``ForwardKLLoss``: chances in fp32 of both, a mask of what is infinite, their product; [1]."""
    chances = r.run(f"{name} teacher softmax", (teacher,), teacher.dims, "fp32")
    absolute = r.bytes_of(student)
    mask = r.run(f"{name} infinite", (), student.dims, "bool", scratch_bytes=absolute)
    logs = Value(f"{name} student log_softmax", student.dims, "fp32")
    logs = r.run(logs.name, (student,), student.dims, "fp32", Backward((logs,)))
    weighted = r.run(f"{name} product", (chances, logs), logs.dims, "fp32", Backward((chances,)))
    filled = r.run(f"{name} filled", (weighted, mask), logs.dims, "fp32", Backward((mask,)))
    rows = student.dims.rsplit(" ", 1)[0]
    # the sum's gradient is expanded: it is no separate tensor
    whole = r.run(f"{name} rows", (filled,), rows, "fp32", Backward())
    result = r.run(name, (whole,), "1", "fp32")
    r.hold(chances, mask, logs, filled)
    return result


def fused_cross_entropy(r: Recorder, hidden: Value, vocab: str, width: str, *, joins: bool) -> Value:
    """Liger's: logits of some tokens at a time, and both gradients made in forward and kept."""
    setting = r.setting
    rows, columns = r.sizes.bytes(vocab), r.sizes.bytes(width)
    tokens = r.sizes.bytes(hidden.dims) // columns
    share = -(-tokens // -(-rows // columns))
    chunk = min(tokens, 1 << (share - 1).bit_length())
    logits = r.bytes(f"{chunk} {vocab}", hidden.kind)
    kept = [Value("hidden gradient of the loss", hidden.dims, hidden.kind)]
    weights: tuple[Tensor, ...] = ()
    if setting.trains:
        kept.append(Value("head gradient of the loss", f"{vocab} {width}", setting.stored))
        gradient = r.weight(
            "lm_head.weight", f"{vocab} {width}", setting.stored, joins="waits" if joins else None
        )
        weights = (gradient,)
    back = Backward(keeps=tuple(kept), weights=weights, gives_kept=True)
    return r.run("loss", (hidden,), "1", "fp32", back, scratch_bytes=logits)


def chunks_of(r: Recorder, hidden: Value, chunks: int) -> list[Value]:
    """``hidden.chunk(chunks, dim=1)``, each made contiguous where there are several sequences."""
    tokens = r.sizes.bytes("s")
    size = -(-tokens // chunks)
    sizes = [min(size, tokens - start) for start in range(0, tokens, size)]
    views = [
        Value(f"hidden chunk {number}", f"b {length} h", hidden.kind, hidden.trains)
        for number, length in enumerate(sizes)
    ]
    first, *others = views
    r.run(first.name, (hidden,), first.dims, hidden.kind, view_of=hidden, makes=others)
    if r.sizes.bytes("b") == 1:
        return views
    return [copy(r, f"{view.name} contiguous", view) for view in views]


def squeezed(r: Recorder, logits: Value) -> Value:
    """``tanh(logits / cap) * cap`` (Gemma 2)."""
    logits = unary(r, f"{logits.name} / cap", logits)
    logits = unary(r, f"{logits.name} tanh", logits, "result")
    return unary(r, f"{logits.name} * cap", logits)
