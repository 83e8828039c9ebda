"""A GPT to read in one sitting; its defaults are GPT-2's 124 million parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT; the defaults are those of the smallest GPT-2."""

    vocabulary: int = 50257
    block_size: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.1


class Attention(nn.Module):
    """Causal self-attention: every position looks at itself and at what came before."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.query_key_value(x).view(batch, length, 3 * self.heads, width // self.heads)
        q, k, v = heads.transpose(1, 2).chunk(3, dim=1)  # each (batch, heads, length, width / heads)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.project(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a perceptron four times as wide; both add to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm_2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * config.width, config.width),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm_1(x)))
        return x + self.dropout(self.mlp(self.norm_2(x)))


class GPT(nn.Module):
    """Tokens in; logits out, or the loss where the next tokens are given as well."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.block_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # one matrix for both, as in GPT-2
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))  # (batch, length, vocabulary)
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
