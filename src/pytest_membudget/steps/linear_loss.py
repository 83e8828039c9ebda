"""The cross entropy of a language model's head, without the logits of all tokens at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint


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
