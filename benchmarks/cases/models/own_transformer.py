"""Another student's decoder for the same course, with its AdamW and loss, re-created.

As in kkaitlyn111/cs336-assignment1 at e6dc141, cs336_basics/{transformer,optimizers,training}.py. Unlike
``dense_transformer``: the norm by ``vector_norm``, rotary positions looked up for every batch row and written
into zeros, one rotary table a layer, a mask of the scores' full size, moments updated in place. Which
tensors a function still names when it returns stands as in the original.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .dense_transformer import Linear as _Linear


class Linear(_Linear):
    """``einsum("oi,...i->...o", weight, x)`` as torch 2.6 runs it: the result's channels are farthest apart.

    A later einsum exchanges the two factors where that makes the result contiguous (``swap_lo_ro`` of
    ``sumproduct_pair``, aten/src/ATen/native/Linear.cpp); reductions over such a result run another way.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, d_in]``."""
        return torch.einsum("oi,bsi->obs", self.weight, x).permute(1, 2, 0)


class RMSNorm(nn.Module):
    """Divides by the root of the mean square, from the vector's norm, in fp32."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.ones(width, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, width]``."""
        dtype = x.dtype
        x = x.to(torch.float32)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        root = torch.sqrt(norm**2 / self.width + 1e-5)
        normed = x / root
        result = torch.einsum("d,bsd->bsd", self.weight, normed)
        return result.to(dtype)


class RotaryEmbedding(nn.Module):
    """A table of cosines and sines on the device, indexed with positions of every batch row."""

    def __init__(self, context: int, width: int, device: str) -> None:
        super().__init__()
        positions = torch.arange(context, device=device)
        channels = torch.arange(0, width, 2, device=device)
        frequencies = 1.0 / (10_000 ** (channels.float() / width))
        angles = torch.outer(positions, frequencies)
        table = torch.zeros(context, width // 2, 2, device=device)
        table[:, :, 0] = torch.cos(angles)
        table[:, :, 1] = torch.sin(angles)
        self.register_buffer("table", table, persistent=False)
        self.table: torch.Tensor

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, heads, sequence, width]``, ``positions`` ``[batch, sequence]``."""
        pairs = x.unflatten(-1, (-1, 2))
        cos = self.table[positions, :, 0]
        sin = self.table[positions, :, 1]
        cos = cos.unsqueeze(1)
        sin = sin.unsqueeze(1)
        rotated = torch.zeros_like(pairs)
        rotated[..., 0] = cos * pairs[..., 0] - sin * pairs[..., 1]
        rotated[..., 1] = sin * pairs[..., 0] + cos * pairs[..., 1]
        result = rotated.reshape(x.shape)
        return result  # noqa: RET504


def softmax(x: torch.Tensor) -> torch.Tensor:
    """By hand, over the last dimension."""
    largest = torch.max(x, dim=-1, keepdim=True)[0]
    exponentials = torch.exp(x - largest)
    total = torch.sum(exponentials, dim=-1, keepdim=True)
    result = exponentials / total
    return result  # noqa: RET504


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention that holds its scores."""
    scores = torch.einsum("...qd,...kd->...qk", query, key)
    scores = scores / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(mask == False, -1e9)  # noqa: E712 - a comparison is an operator of its own
    weights = softmax(scores)
    output = torch.einsum("...qk,...kd->...qd", weights, value)
    return output  # noqa: RET504


class SelfAttention(nn.Module):
    """Causal attention of several heads, with a rotary table of its own."""

    def __init__(self, width: int, heads: int, context: int, device: str) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (Linear(width, width) for _ in range(4))
        self.rope = RotaryEmbedding(context, width // heads, device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, width]``."""
        batch, length, _ = x.shape
        projected = self.q_proj(x), self.k_proj(x), self.v_proj(x)  # named until the layer returns
        query, key, value = (tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2) for tensor in projected)
        positions = torch.arange(length, device=x.device).unsqueeze(0).expand(batch, -1)
        query = self.rope(query, positions)
        key = self.rope(key, positions)
        mask = torch.triu(torch.ones(length, length, device=x.device), diagonal=1).to(torch.bool)
        mask = ~mask
        mask = mask.unsqueeze(0).unsqueeze(0).expand(batch, self.heads, -1, -1)
        result = attention(query, key, value, mask)
        result = result.transpose(1, 2).reshape(x.shape)
        result = self.output_proj(result)
        return result  # noqa: RET504


class SwiGLU(nn.Module):
    """The gated feed-forward layer, its parts named until it returns."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, hidden), Linear(hidden, width), Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[..., width]``."""
        t1 = self.w1(x)
        t3 = self.w3(x)
        t2 = torch.sigmoid(t1) * t1
        t4 = t2 * t3
        result = self.w2(t4)
        return result  # type: ignore[no-any-return] # noqa: RET504


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, hidden: int, context: int, device: str) -> None:
        super().__init__()
        self.ln1 = RMSNorm(width, device)
        self.attn = SelfAttention(width, heads, context, device)
        self.ln2 = RMSNorm(width, device)
        self.ffn = SwiGLU(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[batch, sequence, width]``."""
        h = self.ln1(x)
        h = self.attn(h)
        x = x + h
        h = self.ln2(x)
        h = self.ffn(h)
        x = x + h
        return x  # noqa: RET504


class OwnTransformer(nn.Module):
    """Token ids to logits; embedding, norms and tables are made on ``device``, products on the host."""

    def __init__(
        self, vocab: int, context: int, width: int, layers: int, heads: int, hidden: int, device: str
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(vocab, width, device=device))
        self.layers = nn.ModuleList(Block(width, heads, hidden, context, device) for _ in range(layers))
        self.ln_final = RMSNorm(width, device)
        self.lm_head = Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of every position."""
        x = self.embedding[tokens]
        for layer in self.layers:
            x = layer(x)
        x = self.ln_final(x)
        x = self.lm_head(x)
        return x  # noqa: RET504


def cross_entropy(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean loss; the rows' numbers are made on the host and copied where they index."""
    inputs = inputs.reshape(-1, inputs.size(-1))
    targets = targets.reshape(-1)
    largest = torch.max(inputs, dim=-1, keepdim=True).values
    inputs = inputs - largest
    exponentials = torch.exp(inputs)
    total = exponentials.sum(dim=-1)
    rows = torch.arange(inputs.shape[0])
    chosen = inputs[rows, targets]
    losses = torch.log(total) - chosen
    return losses.mean()


class OwnAdamW(torch.optim.Optimizer):
    """AdamW parameter by parameter, moments in place, one more copy for the denominator."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.01})

    def step(self, closure: Any = None) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                rate, (beta1, beta2) = group["lr"], group["betas"]
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["first"], state["second"] = torch.zeros_like(p.data), torch.zeros_like(p.data)
                first, second = state["first"], state["second"]
                state["step"] += 1
                first.mul_(beta1).add_(grad, alpha=1 - beta1)
                second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                correction = math.sqrt(1 - beta2 ** state["step"])
                denominator = (second.sqrt() / correction).add_(group["eps"])
                p.data.addcdiv_(first, denominator, value=-rate / (1 - beta1 ** state["step"]))
                p.data.add_(p.data, alpha=-rate * group["weight_decay"])
