"""BERT for the classification of sequences, as transformers had it before fused attention.

Written after transformers 4.15.0 (models/bert/modeling_bert.py) on PyTorch 1.10: attention materialises its
scores, dropout of 0.1 on probabilities and outputs, post-norm, and a softmax that keeps its input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class BertShape:
    """Shape of a BERT; the defaults are bert-large-uncased's."""

    layers: int = 24
    width: int = 1024
    heads: int = 16
    hidden: int = 4096
    vocabulary: int = 30_522
    positions: int = 512
    checkpointing: bool = False


class OldSoftmax(torch.autograd.Function):
    """``softmax`` before PyTorch 1.11: saves its input for backward, which does not read it.

    Reported in pytorch/pytorch#64000, mended by pytorch/pytorch#65242.
    """

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        result = F.softmax(scores, dim=-1)
        ctx.save_for_backward(scores, result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        scores, result = ctx.saved_tensors
        return torch._softmax_backward_data(gradients[0], result, -1, scores.dtype)


class _OldDropout(torch.autograd.Function):
    """``_fused_dropout`` of PyTorch 1.10: takes its result before its mask, which is of bytes.

    Since pytorch/pytorch#63937 the mask comes first (aten/src/ATen/native/cuda/Dropout.cu), and free blocks
    fit otherwise.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        mask = torch.empty_like(x, dtype=torch.uint8)
        ctx.save_for_backward(mask)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (mask,) = ctx.saved_tensors
        return gradients[0] * mask


class OldDropout(nn.Module):
    """``nn.Dropout`` in training, as PyTorch 1.10 ran it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the shape of ``x``; memory only, no values."""
        result: torch.Tensor = _OldDropout.apply(x)  # type: ignore[no-untyped-call]
        return result


class Attention(nn.Module):
    """Scores, softmax, dropout, and the output's dense layer with residual and norm."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.dense = nn.Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = OldDropout()

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).permute(0, 2, 1, 3)

    def _context(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mixed = self.query(x)
        keys = self._by_head(self.key(x))
        values = self._by_head(self.value(x))
        queries = self._by_head(mixed)
        scores = torch.matmul(queries, keys.transpose(-1, -2))
        scores = scores / math.sqrt(queries.shape[-1])
        scores = scores + mask
        probabilities = OldSoftmax.apply(scores.float())  # in float32 under autocast too
        probabilities = self.dropout(probabilities)
        context = torch.matmul(probabilities, values)
        context = context.permute(0, 2, 1, 3).contiguous()
        return context.view(*context.shape[:-2], -1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        y = self.dropout(self.dense(self._context(x, mask)))
        out: torch.Tensor = self.norm(y + x)
        return out


class Layer(nn.Module):
    """Attention, then a GELU between two products, each with residual and norm."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.attention = Attention(shape)
        self.up = nn.Linear(shape.width, shape.hidden)
        self.down = nn.Linear(shape.hidden, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = OldDropout()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        x = self.attention(x, mask)
        y = F.gelu(self.up(x))
        y = self.dropout(self.down(y))
        out: torch.Tensor = self.norm(y + x)
        return out


class BertClassifier(nn.Module):
    """``BertForSequenceClassification`` with two labels; gives the loss."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.width, padding_idx=0)
        self.places = nn.Embedding(shape.positions, shape.width)
        self.types = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = OldDropout()
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.pooler = nn.Linear(shape.width, shape.width)
        self.classifier = nn.Linear(shape.width, 2)
        self.register_buffer("positions", torch.arange(shape.positions).expand((1, -1)), persistent=False)

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean loss of ``tokens`` (batch, tokens)."""
        attended = torch.ones(tokens.shape, device=tokens.device)
        types = torch.zeros(tokens.shape, dtype=torch.long, device=tokens.device)
        mask = (1.0 - attended[:, None, None, :]) * -10_000.0
        x = self.words(tokens) + self.types(types)
        x += self.places(self.positions[:, : tokens.size(1)])
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=True) if self.shape.checkpointing else layer(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        logits = self.classifier(self.dropout(pooled))
        return F.cross_entropy(logits.view(-1, 2), labels.view(-1))
