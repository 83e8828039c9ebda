"""The step of knowledge distillation."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from .losses import cross_entropy_in_chunks, forward_kl
from .models import Batch, call, logits_of, refuse_training_mode


def distillation_step(
    student: nn.Module,
    teacher: nn.Module,
    optimizer: Optimizer | None,
    batch: Batch,
    *,
    temperature: float = 1.0,
    kd_ratio: float = 0.5,
    chunks: int = 1,
    ignore_index: int = -100,
) -> Tensor:
    """Train ``student`` one step towards ``teacher``'s distribution; return the loss, detached.

    Equivalent to::

        labels = batch.pop("labels")
        labels = F.pad(labels[:, 1:], (0, 1), value=ignore_index)   # position i names token i + 1
        with torch.no_grad():
            teacher_logits = teacher(**batch).logits                # (batch, sequence, vocabulary)
        logits = student(**batch).logits
        kd = forward_kl(logits, teacher_logits, labels, temperature, chunks, ignore_index)
        ce = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=ignore_index)
        loss = kd_ratio * temperature**2 * kd + (1 - kd_ratio) * ce
        del logits, teacher_logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    The mix is torchtune's (``recipes/knowledge_distillation_single_device.py`` at 00d09d0); the factor
    ``temperature**2`` is from Hinton et al., "Distilling the Knowledge in a Neural Network" (2015), section
    2. Both losses are taken in ``chunks`` along the sequence; the models compute no loss themselves. Without
    ``labels`` (any tensor or sequence) the loss is the divergence alone, over every position.

    The teacher runs first: its temporaries are gone before the student's activations come. It must be in
    eval mode; neither its mode nor ``requires_grad`` is changed. ``use_cache=False`` in the batch spares
    Hugging Face models a key-value cache. ``optimizer=None`` is for :func:`optimizer_in_backward`.

    Raises ``TypeError`` for outputs without logits, ``ValueError`` for a ratio outside 0..1, a teacher in
    training mode, or logits of two shapes.
    """
    if not 0.0 <= kd_ratio <= 1.0:
        raise ValueError(f"kd_ratio={kd_ratio!r}: give 0 (cross entropy only) to 1 (teacher only)")
    refuse_training_mode(teacher, "teacher")
    inputs, labels = _next_token_labels(batch, ignore_index)
    with torch.no_grad():
        teacher_logits = logits_of(call(teacher, inputs), "teacher")
    logits = logits_of(call(student, inputs), "student")
    loss = temperature**2 * forward_kl(logits, teacher_logits, labels, temperature, chunks, ignore_index)
    if labels is not None and kd_ratio < 1.0:
        cross_entropy = cross_entropy_in_chunks(logits, labels, chunks, ignore_index)
        loss = kd_ratio * loss + (1.0 - kd_ratio) * cross_entropy
    del logits, teacher_logits  # the graph holds what backward needs of them
    loss.backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def _next_token_labels(batch: Batch, ignore_index: int) -> tuple[object, Tensor | None]:
    """What the models are called with, and for each position the token that comes next."""
    if not isinstance(batch, Mapping) or batch.get("labels") is None:
        return batch, None
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return inputs, F.pad(batch["labels"][..., 1:], (0, 1), value=ignore_index)
