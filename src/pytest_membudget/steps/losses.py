"""Losses of language models, taken chunk by chunk of the tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def forward_kl(
    student_logits: Tensor,
    teacher_logits: Tensor,
    labels: Tensor | None = None,
    temperature: float = 1.0,
    chunks: int = 1,
    ignore_index: int = -100,
) -> Tensor:
    """``KL(teacher || student)`` in fp32: the mean over the positions whose label is not ``ignore_index``.

    Equivalent to::

        kl = F.kl_div(F.log_softmax(student_logits / temperature, -1),
                      F.log_softmax(teacher_logits / temperature, -1), reduction="none", log_target=True)
        loss = kl.sum(-1)[labels != ignore_index].mean()

    Logits are ``(..., sequence, vocabulary)`` and finite. ``labels`` are ``(..., sequence)``, each that of
    the logits at its own position, and only mask; ``None`` counts every position. Nothing flows back to the
    teacher. 0 where every position is masked.

    ``chunks`` slices the sequence as for torchtune's ``ForwardKLWithChunkedOutputLoss`` (``torchtune/modules/
    loss/kd_losses.py`` at 104b38f; it leaves out the teacher's entropy, which has no gradient). The result
    changes by rounding only. The forward pass then holds one slice's fp32 copies and products at a time;
    what is saved for backward, 8 bytes an element, stays.

    Raises ``ValueError`` for logits of two shapes or ``chunks`` below 1.
    """
    if student_logits.shape != teacher_logits.shape:
        raise ValueError(
            f"the student's logits are {tuple(student_logits.shape)}, the teacher's "
            f"{tuple(teacher_logits.shape)}: give both the same tokens, and models of one vocabulary"
        )
    if labels is None:
        labels = torch.zeros(student_logits.shape[:-1], dtype=torch.long, device=student_logits.device)
    mask = labels != ignore_index
    total = torch.zeros((), device=student_logits.device)
    slices = (
        _sliced(student_logits, chunks, -2),
        _sliced(teacher_logits, chunks, -2),
        mask.chunk(chunks, -1),
    )
    for student, teacher, counted in zip(*slices, strict=True):
        divergence = _divergence(student, teacher.detach(), temperature)
        total = total + divergence.masked_fill(~counted, 0.0).sum()
    return total / mask.sum().clamp(min=1)


def cross_entropy_in_chunks(logits: Tensor, labels: Tensor, chunks: int, ignore_index: int) -> Tensor:
    """The mean over the labels that are not ``ignore_index``, with one slice's fp32 copy at a time."""
    total = torch.zeros((), device=logits.device)
    for part, targets in zip(_sliced(logits, chunks, -2), _sliced(labels, chunks, -1), strict=True):
        rows = part.flatten(0, -2).float()
        total = total + F.cross_entropy(rows, targets.flatten(), ignore_index=ignore_index, reduction="sum")
    return total / (labels != ignore_index).sum().clamp(min=1)


def _sliced(tensor: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    if chunks < 1:
        raise ValueError(f"chunks={chunks!r}: give the number of slices of the sequence, at least 1")
    return tensor.chunk(chunks, dim)


def _divergence(student_logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    if temperature != 1.0:  # dividing by 1 would cost a copy of both
        student_logits, teacher_logits = student_logits / temperature, teacher_logits / temperature
    student = F.log_softmax(student_logits, dim=-1, dtype=torch.float32)
    teacher = F.log_softmax(teacher_logits, dim=-1, dtype=torch.float32)
    return (teacher.exp() * (teacher - student)).sum(-1)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    chunks: int = 8,
) -> Tensor:
    """``F.cross_entropy(F.linear(input, linear_weight, linear_bias), target)``, by chunks of tokens.

    Equivalent to::

        for part, labels in zip(input.chunk(chunks), target.chunk(chunks)):
            loss += checkpoint(lambda part: F.cross_entropy(F.linear(part, weight).float(), labels), part)

    ``input`` is ``(..., features)``, the input of the head; ``linear_weight`` is ``(vocabulary, features)``;
    ``target`` is ``(...)``, class indices. Logits, their fp32 copy and their gradients exist for one chunk at
    a time; backward computes the logits of each chunk again. ``reduction`` is ``mean``, over the labels that
    are not ``ignore_index``, or ``sum``.

    Raises ``ValueError`` for another ``reduction`` or ``chunks`` below 1.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction={reduction!r}: write 'mean' or 'sum'")
    if chunks < 1:
        raise ValueError(f"chunks={chunks!r}: give the number of chunks of tokens, at least 1")
    rows, labels = input.reshape(-1, input.shape[-1]), target.reshape(-1)
    total = torch.zeros((), device=input.device)
    for part, of_part in zip(rows.chunk(chunks), labels.chunk(chunks), strict=True):
        total = total + checkpoint(
            _summed_loss,
            part,
            linear_weight,
            linear_bias,
            of_part,
            ignore_index,
            use_reentrant=False,
            preserve_rng_state=False,
        )
    return total if reduction == "sum" else total / (labels != ignore_index).sum()


def _summed_loss(
    rows: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, ignore_index: int
) -> Tensor:
    logits = F.linear(rows, weight, bias).float()
    return F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")
