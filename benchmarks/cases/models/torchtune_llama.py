"""The Llama that torchtune trains, and its losses: what each operator keeps for backward.

Written after pytorch/torchtune@1814feb (torchtune/modules: transformer.py, attention.py, rms_norm.py,
feed_forward.py, position_embeddings.py, loss/ce_chunked_output_loss.py; November 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

SliceLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """Shape of a Llama, and how torchtune runs it."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    positions: int
    tied: bool = False
    checkpointing: bool = False
    chunks: int = 0
    """Slices of the sequence whose logits are made apart; 0: all at once, in float32."""


LLAMA2_7B = LlamaShape(32, 4096, 32, 32, 11_008, 32_000, 4096)
LLAMA32_3B = LlamaShape(28, 3072, 24, 8, 8192, 128_256, 131_072, tied=True)


class RMSNorm(nn.Module):
    """Root mean square norm, computed in float32 and scaled in the input's type."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` over its root mean square, scaled."""
        wide = x.float()
        normed = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)
        return normed * self.scale


class Rotary(nn.Module):
    """Rotates pairs of neighbours in float32, by a table that all layers share."""

    def __init__(self, width: int, positions: int) -> None:
        super().__init__()
        theta = 500_000.0 ** (-torch.arange(0, width, 2).float() / width)
        angles = torch.outer(torch.arange(positions).float(), theta)
        table = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """``x`` (batch, tokens, heads, width), rotated; ``positions`` where sequences are packed."""
        table: torch.Tensor = self.table[: x.size(1)] if positions is None else self.table[positions]
        pairs = x.float().reshape(*x.shape[:-1], -1, 2)
        table = table.view(-1, pairs.size(1), 1, pairs.size(3), 2)
        turned = torch.stack(
            [
                pairs[..., 0] * table[..., 0] - pairs[..., 1] * table[..., 1],
                pairs[..., 1] * table[..., 0] + pairs[..., 0] * table[..., 1],
            ],
            -1,
        )
        return turned.flatten(3).type_as(x)


class Attention(nn.Module):
    """Grouped queries; keys and values are copied out to all heads before the attention."""

    def __init__(self, shape: LlamaShape, rotary: Rotary) -> None:
        super().__init__()
        self.shape = shape
        head = shape.width // shape.heads
        self.q_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.kv_heads * head, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.kv_heads * head, bias=False)
        self.output_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.rotary = rotary

    def _spread(self, x: torch.Tensor) -> torch.Tensor:
        shape = self.shape
        if shape.heads == shape.kv_heads:
            return x
        batch, _, tokens, head = x.shape
        copies = (batch, shape.kv_heads, shape.heads // shape.kv_heads, tokens, head)
        return x.unsqueeze(2).expand(copies).flatten(1, 2)

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """(batch, tokens, width)."""
        batch, tokens, width = x.shape
        head = width // self.shape.heads
        q = self.q_proj(x)
        q = self.rotary(q.view(batch, tokens, -1, head), positions).transpose(1, 2)
        k = self.k_proj(x)
        v = self.v_proj(x)
        k = k.view(batch, tokens, -1, head)
        v = v.view(batch, tokens, -1, head)
        k = self.rotary(k, positions).transpose(1, 2)
        v = v.transpose(1, 2)
        k, v = self._spread(k), self._spread(v)
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        output = output.transpose(1, 2).contiguous().view(batch, tokens, -1)
        out: torch.Tensor = self.output_proj(output)
        return out


class FeedForward(nn.Module):
    """Gated by a SiLU."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.w1 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.w2 = nn.Linear(shape.hidden, shape.width, bias=False)
        self.w3 = nn.Linear(shape.width, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        h = F.silu(self.w1(x))
        h = h * self.w3(x)
        out: torch.Tensor = self.w2(h)
        return out


class Layer(nn.Module):
    """Attention and MLP, each after a norm and added to its input."""

    def __init__(self, shape: LlamaShape, rotary: Rotary) -> None:
        super().__init__()
        self.sa_norm, self.mlp_norm = RMSNorm(shape.width), RMSNorm(shape.width)
        self.attn = Attention(shape, rotary)
        self.mlp = FeedForward(shape)

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """(batch, tokens, width)."""
        h = self.sa_norm(x)
        attended = self.attn(h, positions)
        h = attended + x
        out: torch.Tensor = h + self.mlp(self.mlp_norm(h))
        return out


class TorchtuneLlama(nn.Module):
    """``TransformerDecoder``: logits in float32, or a list of slices in the model's type."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        rotary = Rotary(shape.width // shape.heads, shape.positions)
        self.tok_embeddings = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape, rotary) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.output = None if shape.tied else nn.Linear(shape.width, shape.vocabulary, bias=False)

    def _logits(self, h: torch.Tensor) -> torch.Tensor:
        return F.linear(h, self.tok_embeddings.weight if self.output is None else self.output.weight)

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor | None = None
    ) -> torch.Tensor | list[torch.Tensor]:
        """Logits (batch, tokens, vocabulary)."""
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            if self.shape.checkpointing:
                h = checkpoint(layer, h, positions, use_reentrant=False)
            else:
                h = layer(h, positions)
        h = self.norm(h)
        if self.shape.chunks:
            return [self._logits(part) for part in h.chunk(self.shape.chunks, dim=1)]
        return self._logits(h).float()


def slice_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Summed cross entropy of one slice, in float32: what torchtune compiles of its loss."""
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def loss_of(
    logits: torch.Tensor | list[torch.Tensor], labels: torch.Tensor, of_slice: SliceLoss = slice_loss
) -> torch.Tensor:
    """Cross entropy: ``nn.CrossEntropyLoss``, or slice by slice (``CEWithChunkedOutputLoss``)."""
    if isinstance(logits, torch.Tensor):
        labels = labels.reshape(-1)
        logits = logits.reshape(-1, logits.size(-1))
        return F.cross_entropy(logits, labels)
    wanted = (labels != -100).sum()
    targets = [part.reshape(-1) for part in labels.chunk(len(logits), dim=1)]
    logits = [part.reshape(-1, part.size(-1)) for part in logits]
    total = torch.zeros((), device=labels.device)
    for part, target in zip(logits, targets, strict=True):
        total = total + of_slice(part, target)
    return total / wanted
