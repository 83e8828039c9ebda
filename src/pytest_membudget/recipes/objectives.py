"""What is trained towards: modules that return the loss of a micro-batch of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..scenarios.job import Loss
from ..steps import forward_kl, linear_cross_entropy
from .parts import Decoder


class NextToken(nn.Module):
    """Cross entropy with the next token."""

    def __init__(self, decoder: Decoder, loss: Loss) -> None:
        super().__init__()
        self.model = decoder.model
        self._decoder, self._loss = decoder, loss

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss of ``tokens``, (batch, sequence)."""
        if self._loss.kind == "full":
            return self._decoder.loss(tokens)
        hidden, head = self._decoder.hidden(tokens), self._decoder.head
        return linear_cross_entropy(
            hidden, head.weight, tokens, linear_bias=head.bias, chunks=self._loss.chunks
        )


class Distillation(nn.Module):
    """Divergence from a frozen teacher's distribution, which needs the logits of both."""

    def __init__(self, student: Decoder, teacher: Decoder, loss: Loss) -> None:
        super().__init__()
        self.model = student.model
        self._student, self._chunks = student, loss.chunks if loss.kind == "chunked" else 1
        self._teacher = teacher  # no submodule: it is sharded by itself, and is not trained

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss of ``tokens``, (batch, sequence)."""
        with torch.no_grad():
            targets = self._teacher.logits(tokens)
        logits = self._student.logits(tokens)
        # a larger model of a family may pad its vocabulary further: what both have is compared
        return forward_kl(logits, targets[..., : logits.shape[-1]], chunks=self._chunks)
