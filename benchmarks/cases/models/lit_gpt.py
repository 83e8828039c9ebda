"""The GPT that lit-gpt's LoRA script trains: frozen, with low-rank updates on queries and values.

Written after Lightning-AI/litgpt@0cc02afa (lit_gpt/model.py, lora.py, rmsnorm.py and utils.py), the commit
that published the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

#: Makes the linear layers: ``nn.Linear``, or one that keeps its weight in four bits.
MakeLinear = Callable[[int, int, bool], nn.Module]


@dataclass(frozen=True, slots=True)
class LitConfig:
    """Shape of one of lit-gpt's models (lit_gpt/config.py), with the script's LoRA settings."""

    layers: int
    heads: int
    width: int
    hidden: int
    vocabulary: int
    rotary: float = 0.25
    llama: bool = False
    """RMSNorm, a gated MLP, no biases, and one block after the other."""
    shared_norm: bool = False
    head_bias: bool = False
    gelu: str = "none"
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def rotated(self) -> int:
        """How much of a head is rotated."""
        return int(self.rotary * self.head_width)


class RMSNorm(nn.Module):
    """Root mean square norm, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` over its root mean square, scaled."""
        dtype = x.dtype
        x = x.float()
        mean = torch.mean(x * x, dim=-1, keepdim=True)
        normed = x * torch.rsqrt(mean + 1e-5)
        return (self.weight * normed).to(dtype)


def _norm(config: LitConfig) -> nn.Module:
    return RMSNorm(config.width) if config.llama else nn.LayerNorm(config.width)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding; ``cos`` and ``sin`` are float32, and so is what is computed with them."""
    half = x.size(-1) // 2
    first, second = x[..., :half], x[..., half:]
    turned = torch.cat((-second, first), dim=-1)
    return ((x * cos) + (turned * sin)).type_as(x)


class LoraQKV(nn.Module):
    """Queries, keys and values in one product; updates of queries and values, by a grouped convolution."""

    def __init__(self, config: LitConfig, linear: MakeLinear) -> None:
        super().__init__()
        width = config.width
        self.linear = linear(width, 3 * width, not config.llama)
        self.lora_a = nn.Parameter(torch.zeros(2 * config.rank, width))
        self.lora_b = nn.Parameter(torch.zeros(2 * width, config.rank))
        self.dropout = nn.Dropout(config.dropout)
        self.scaling = config.alpha / config.rank
        self.columns = [*range(width), *range(2 * width, 3 * width)]
        self.outputs = 3 * width

    def _padded(self, update: torch.Tensor) -> torch.Tensor:
        update = update.transpose(0, 1)
        zeros = update.new_zeros((*update.shape[:-1], self.outputs)).view(-1, self.outputs)
        columns = torch.tensor(self.columns, device=zeros.device)
        padded = zeros.index_copy(1, columns, update.reshape(-1, len(self.columns)))
        return padded.view((*update.shape[:-1], self.outputs)).transpose(0, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, 3 x width)."""
        pretrained: torch.Tensor = self.linear(x)
        low = F.linear(self.dropout(x), self.lora_a)
        high = F.conv1d(low.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        return pretrained + self._padded(high) * self.scaling


class Attention(nn.Module):
    """Causal attention through ``scaled_dot_product_attention``."""

    def __init__(self, config: LitConfig, linear: MakeLinear) -> None:
        super().__init__()
        self.config = config
        self.attn = LoraQKV(config, linear)
        self.proj = linear(config.width, config.width, not config.llama)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        batch, tokens, width = x.size()
        head, rotated = self.config.head_width, self.config.rotated
        qkv = self.attn(x).view(batch, tokens, self.config.heads, 3, head).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((1, 1, 1), dim=2)
        q, k, v = (one.reshape(batch, -1, tokens, head) for one in (q, k, v))
        q_rotated = rotate(q[..., :rotated], cos, sin)
        k_rotated = rotate(k[..., :rotated], cos, sin)
        q = torch.cat((q_rotated, q[..., rotated:]), dim=-1)
        k = torch.cat((k_rotated, k[..., rotated:]), dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, scale=head**-0.5, is_causal=True).transpose(1, 2)
        out: torch.Tensor = self.proj(y.reshape(batch, tokens, width))
        return out


class NeoxMLP(nn.Module):
    """Two products with a GELU between."""

    def __init__(self, config: LitConfig, linear: MakeLinear) -> None:
        super().__init__()
        self.fc = linear(config.width, config.hidden, True)
        self.proj = linear(config.hidden, config.width, True)
        self.gelu = config.gelu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        x = self.fc(x)
        x = F.gelu(x, approximate=self.gelu)
        out: torch.Tensor = self.proj(x)
        return out


class LlamaMLP(nn.Module):
    """Gated by a SiLU."""

    def __init__(self, config: LitConfig, linear: MakeLinear) -> None:
        super().__init__()
        self.fc_1 = linear(config.width, config.hidden, False)
        self.fc_2 = linear(config.width, config.hidden, False)
        self.proj = linear(config.hidden, config.width, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        gate = self.fc_1(x)
        up = self.fc_2(x)
        out: torch.Tensor = self.proj(F.silu(gate) * up)
        return out


class Block(nn.Module):
    """Attention and MLP: beside each other, or for Llama one after the other."""

    def __init__(self, config: LitConfig, linear: MakeLinear) -> None:
        super().__init__()
        self.config = config
        self.norm_1 = _norm(config)
        self.attn = Attention(config, linear)
        self.norm_2 = None if config.shared_norm else _norm(config)
        self.mlp = LlamaMLP(config, linear) if config.llama else NeoxMLP(config, linear)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        normed: torch.Tensor = self.norm_1(x)
        h = self.attn(normed, cos, sin)
        if self.config.llama:
            assert self.norm_2 is not None
            x = h + x
            return self.mlp(self.norm_2(x)) + x
        second = normed if self.norm_2 is None else self.norm_2(x)
        return self.mlp(second) + h + x


class LitGPT(nn.Module):
    """Embedding, blocks, norm, and a head that is applied to slices of the sequence."""

    def __init__(self, config: LitConfig, linear: MakeLinear, tokens: int) -> None:
        super().__init__()
        self.lm_head = linear(config.width, config.vocabulary, config.head_bias)
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config, linear) for _ in range(config.layers))
        self.ln_f = _norm(config)
        positions = torch.arange(tokens, dtype=torch.float32)
        theta = 10_000.0 ** (-torch.arange(0, config.rotated, 2, dtype=torch.float32) / config.rotated)
        angles = torch.outer(positions, theta).repeat(1, 2)
        self.register_buffer("cos", torch.cos(angles), persistent=False)
        self.register_buffer("sin", torch.sin(angles), persistent=False)
        for name, parameter in self.named_parameters():
            parameter.requires_grad = "lora_" in name

    def forward(self, tokens: torch.Tensor, chunk: int) -> list[torch.Tensor]:
        """Logits of ``chunk`` positions each, (batch, chunk, vocabulary)."""
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, self.cos[: tokens.size(1)], self.sin[: tokens.size(1)])
        x = self.ln_f(x)
        return [self.lm_head(part) for part in x.split(chunk, dim=1)]


def chunked_cross_entropy(logits: list[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy of each slice by itself, over ``targets`` that are not -1."""
    flat = [part.reshape(-1, part.size(-1)) for part in logits]
    wanted = [part.reshape(-1) for part in targets.split(logits[0].size(1), dim=1)]
    losses = [
        F.cross_entropy(one, target, ignore_index=-1, reduction="none")
        for one, target in zip(flat, wanted, strict=True)
    ]
    return torch.cat(losses).mean()
