"""The Llama of torchao's own benchmarks, for training and for generating with a cache.

Written after pytorch/ao@9acc9a4de (torchao/_models/llama/model.py, benchmarks/quantized_training) and
pytorch/ao@bc000aafb (torchao/_models/llama/generate.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class GptFastShape:
    """Shape of one of torchao's Llamas."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    positions: int
    checkpointing: bool = False


class RMSNorm(nn.Module):
    """Root mean square norm, computed in float32 and scaled in the input's type."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    @staticmethod
    def _norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` over its root mean square, scaled."""
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def rotate(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of neighbours in float32, by a table in the model's type."""
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    table = table.view(1, pairs.size(1), 1, pairs.size(3), 2)
    turned = torch.stack(
        [
            pairs[..., 0] * table[..., 0] - pairs[..., 1] * table[..., 1],
            pairs[..., 1] * table[..., 0] + pairs[..., 0] * table[..., 1],
        ],
        -1,
    )
    turned = turned.flatten(3)
    return turned.type_as(x)


class Attention(nn.Module):
    """One product for queries, keys and values; a cache where there is one."""

    def __init__(self, shape: GptFastShape) -> None:
        super().__init__()
        self.shape = shape
        self.head = shape.width // shape.heads
        self.wqkv = nn.Linear(shape.width, (shape.heads + 2 * shape.kv_heads) * self.head, bias=False)
        self.wo = nn.Linear(shape.width, shape.width, bias=False)
        self.cache: tuple[torch.Tensor, torch.Tensor] | None = None

    def make_cache(self, batch: int, tokens: int) -> None:
        """Zeros in the weight's type."""
        size = (batch, self.shape.kv_heads, tokens, self.head)
        dtype = self.wo.weight.dtype
        self.cache = (torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype))

    def forward(
        self, x: torch.Tensor, table: torch.Tensor, mask: torch.Tensor | None, at: torch.Tensor | None
    ) -> torch.Tensor:
        """(batch, tokens, width)."""
        batch, tokens, width = x.shape
        shared = self.shape.kv_heads * self.head
        q, k, v = self.wqkv(x).split([width, shared, shared], dim=-1)
        q = q.view(batch, tokens, -1, self.head)
        k = k.view(batch, tokens, -1, self.head)
        v = v.view(batch, tokens, -1, self.head)
        q = rotate(q, table)
        k = rotate(k, table)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if self.cache is not None:
            keys, values = self.cache
            keys[:, :, at] = k
            values[:, :, at] = v
            k, v = keys, values
        k = k.repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=1)
        v = v.repeat_interleave(self.shape.heads // self.shape.kv_heads, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        y = y.transpose(1, 2).contiguous().view(batch, tokens, width)
        out: torch.Tensor = self.wo(y)
        return out


class Block(nn.Module):
    """Attention and gated MLP, each after a norm and added to its input."""

    def __init__(self, shape: GptFastShape) -> None:
        super().__init__()
        self.attention = Attention(shape)
        self.w1 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.w3 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.w2 = nn.Linear(shape.hidden, shape.width, bias=False)
        self.ffn_norm, self.attention_norm = RMSNorm(shape.width), RMSNorm(shape.width)

    def _feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out

    def forward(
        self, x: torch.Tensor, at: torch.Tensor | None, table: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """(batch, tokens, width)."""
        h = x + self.attention(self.attention_norm(x), table, mask, at)
        out: torch.Tensor = h + self._feed_forward(self.ffn_norm(h))
        return out


class GptFast(nn.Module):
    """Embedding, blocks, norm, untied output."""

    def __init__(self, shape: GptFastShape) -> None:
        super().__init__()
        self.shape = shape
        self.tok_embeddings = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.table = torch.empty(0)
        self.causal_mask = torch.empty(0)

    def setup_caches(self, batch: int, tokens: int, *, training: bool) -> None:
        """The mask, the table of rotations for all positions, and in inference keys and values."""
        tokens = -(-tokens // 8) * 8
        self.causal_mask = torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))
        if not training:
            for block in self.layers:
                assert isinstance(block, Block)
                block.attention.make_cache(batch, tokens)
        self.table = self._table()

    def _table(self) -> torch.Tensor:
        head = self.shape.width // self.shape.heads
        frequencies = 1.0 / (10_000.0 ** (torch.arange(0, head, 2)[: head // 2].float() / head))
        positions = torch.arange(self.shape.positions, device=frequencies.device)
        frequencies = torch.outer(positions, frequencies)
        turns = torch.polar(torch.ones_like(frequencies), frequencies)
        table = torch.stack([turns.real, turns.imag], dim=-1)
        return table.to(dtype=self.output.weight.dtype)

    def forward(self, tokens: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """Logits (batch, tokens, vocabulary)."""
        mask = None if at is None else self.causal_mask[None, None, at]
        table = self.table[: tokens.shape[1]] if at is None else self.table[at]
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            if self.shape.checkpointing:
                x = checkpoint(layer, x, at, table, mask, use_reentrant=False)
            else:
                x = layer(x, at, table, mask)
        x = self.norm(x)
        logits: torch.Tensor = self.output(x)
        return logits


def sample(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The next token, of the 200 likeliest at temperature 0.8, and all probabilities."""
    logits = logits[:, -1]
    logits = logits / 0.8
    largest, _ = torch.topk(logits, 200)
    pivot = largest.select(-1, -1).unsqueeze(-1)
    logits = torch.where(logits < pivot, -float("Inf"), logits)
    probabilities = F.softmax(logits, dim=-1)
    drawn = torch.empty_like(probabilities).exponential_(1)
    return torch.argmax(probabilities / drawn, dim=-1, keepdim=True).to(dtype=torch.int), probabilities


@torch.no_grad()
def generate(model: GptFast, prompt: torch.Tensor, new_tokens: int, decoded: int) -> torch.Tensor:
    """``prompt`` and ``new_tokens`` more; every token's probabilities are kept until the end.

    Steps allocate alike: ``decoded`` of them are run, and of the rest only what they keep is made.
    """
    length = prompt.size(-1)
    at = torch.arange(length, device="cuda")
    if model.table.numel() == 0:
        with torch.device("cuda"):
            model.setup_caches(1, length + new_tokens, training=False)
    token = sample(model(prompt.view(1, -1), at))[0].clone()
    at = torch.tensor([length], device="cuda", dtype=torch.int)
    tokens, kept = [], []
    token = token.view(1, -1)
    for step in range(new_tokens - 1):
        with sdpa_kernel(SDPBackend.MATH):
            if step < decoded:
                drawn, probabilities = sample(model(token, at))
            drawn, probabilities = drawn.clone(), probabilities.clone()
            at += 1
            tokens.append(drawn.clone())
            kept.append(probabilities)
            token = drawn
    return torch.cat((prompt.view(1, -1), *tokens), dim=-1)
