"""The loss of a student that learns from a teacher and from the text: as torchtune mixes them, by chunks."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pytest_membudget.steps import forward_kl


def distillation_loss(logits: Tensor, targets: Tensor, tokens: Tensor, chunks: int = 8) -> Tensor:
    """Half the divergence from the teacher's ``targets``, half the cross entropy with the next token.

    ``logits`` and ``targets`` are (batch, sequence, vocabulary), ``tokens`` (batch, sequence).
    """
    labels = F.pad(tokens[:, 1:], (0, 1), value=-100)
    divergence = forward_kl(logits, targets, labels, chunks=chunks)
    cross_entropy = torch.zeros((), device=logits.device)
    for part, wanted in zip(logits.chunk(chunks, 1), labels.chunk(chunks, 1), strict=True):
        rows = part.flatten(0, 1).float()
        cross_entropy = cross_entropy + F.cross_entropy(rows, wanted.flatten(), reduction="sum")
    return (divergence + cross_entropy / (labels != -100).sum()) / 2
