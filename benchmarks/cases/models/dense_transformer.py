"""The decoder that Stanford's CS336 hands out with its second assignment, re-created.

RMSNorm, SwiGLU, rotary positions, attention that materialises its scores, no biases, an untied output head,
as configured in stanford-cs336/assignment2-systems (2026 release; Wedsonlin/assignment2-systems at 8630bcf
carries it). Which tensors a function still names when it returns decides what is alive in inference: the
local names here stand where the original has them.
"""

from __future__ import annotations

import math

import torch
from torch import nn


class Linear(nn.Module):
    """``[..., d_in]`` to ``[..., d_out]`` by one product, without a bias."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * math.sqrt(2 / (d_in + d_out)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[..., d_in]``."""
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(nn.Module):
    """Rows of a table, taken by advanced indexing: not ``nn.Embedding``'s kernels."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens`` is ``[batch, sequence]``."""
        return self.weight[tokens, :]


class RMSNorm(nn.Module):
    """The norm of single operators, in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[..., width]``."""
        dtype = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(dtype)


class RotaryEmbedding(nn.Module):
    """Rotates pairs of neighbouring channels by angles that are computed once."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        frequencies = torch.tensor(10_000.0) ** -(torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(context), frequencies)
        self.register_buffer("cache", torch.stack((torch.cos(angles), torch.sin(angles))), persistent=False)
        self.cache: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, heads, sequence, width]``."""
        x1, x2 = x.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cos, sin = self.cache[:, : x.size(-2), :].unbind(0)
        rotated1 = cos * x1 - sin * x2
        rotated2 = sin * x1 + cos * x2
        return torch.concat((rotated1, rotated2), dim=-1)


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """By hand: three tensors of ``x``'s size."""
    rescaled = x - torch.max(x, dim=dim, keepdim=True)[0]
    exponentials = torch.exp(rescaled)
    return exponentials / torch.sum(exponentials, dim=dim, keepdim=True)


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Attention over ``[..., sequence, width]`` that holds ``[..., sequence, sequence]`` scores."""
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, value)


class SelfAttention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self, width: int, heads: int, positions: RotaryEmbedding) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width) for _ in range(3))
        self.output_proj = Linear(width, width)
        self.positions = positions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, width]``."""
        length = x.size(1)
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        query, key, value = (
            tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2) for tensor in (query, key, value)
        )
        query = self.positions(query)  # one by one: the first's memory is free for the second's
        key = self.positions(key)
        steps = torch.arange(length, device=x.device)
        mask = (steps[:, None] >= steps[None, :])[None, ...]
        output = attention(query, key, value, mask)
        output = output.transpose(1, 2).reshape(x.shape).contiguous()
        return self.output_proj(output)  # type: ignore[no-any-return]


class SwiGLU(nn.Module):
    """The gated feed-forward layer; the gate by hand."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, hidden), Linear(hidden, width), Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[..., width]``."""
        return self.w2(silu(self.w1(x)) * self.w3(x))  # type: ignore[no-any-return]


def silu(x: torch.Tensor) -> torch.Tensor:
    """Two operators instead of ``F.silu``'s one."""
    return x * torch.sigmoid(x)


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, hidden: int, positions: RotaryEmbedding) -> None:
        super().__init__()
        self.attn = SelfAttention(width, heads, positions)
        self.ffn = SwiGLU(width, hidden)
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, width]``."""
        from_attention = self.attn(self.ln1(x))
        attended = x + from_attention
        from_ffn = self.ffn(self.ln2(attended))
        return attended + from_ffn  # type: ignore[no-any-return]


class DenseTransformer(nn.Module):
    """Token ids to logits: ``[batch, sequence]`` to ``[batch, sequence, vocab]``."""

    def __init__(self, vocab: int, context: int, width: int, layers: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.token_embeddings = Embedding(vocab, width)
        self.positions = RotaryEmbedding(context, width // heads)
        self.layers = nn.ModuleList(Block(width, heads, hidden, self.positions) for _ in range(layers))
        self.ln_final = RMSNorm(width)
        self.lm_head = Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        embedded = self.token_embeddings(tokens)
        x = embedded
        for layer in self.layers:
            x = layer(x)
        x = self.ln_final(x)
        logits = self.lm_head(x)
        return logits  # type: ignore[no-any-return] # noqa: RET504 - x is alive while the product runs
