"""A readable Llama in plain torch: RMSNorm, grouped queries, rotary positions, SwiGLU; or a stage of it."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..formulas.decoder import Shape
from .program import Decoder
from .tensor_plans import llama_plan

#: Llama 3's (arXiv:2407.21783, table 3).
_THETA = 500_000.0


class Attention(nn.Module):
    """Causal attention; several query heads share a key and a value head."""

    def __init__(self, shape: Shape, is_eager: bool) -> None:
        super().__init__()
        self._width, self._is_eager = shape.head_dim, is_eager
        #: keys and values of earlier tokens, (batch, heads, tokens, width): grown, or allocated whole
        self.cache: Cache | None = None
        wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q = nn.Linear(shape.hidden, wide, bias=shape.qkv_bias)
        self.k = nn.Linear(shape.hidden, narrow, bias=shape.qkv_bias)
        self.v = nn.Linear(shape.hidden, narrow, bias=shape.qkv_bias)
        self.o = nn.Linear(wide, shape.hidden, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """``x``, (batch, tokens, hidden), mixed along its tokens."""
        batch, length, _ = x.shape
        # -1: under tensor parallelism a rank has only some of the heads
        q, k, v = (
            linear(x).view(batch, length, -1, self._width).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        q, k = rotated(q, angles), rotated(k, angles)
        if self.cache is not None:
            k, v = self.cache.extended(k, v)
        y = self._eager(q, k, v) if self._is_eager else _fused(q, k, v)
        mixed: Tensor = self.o(y.transpose(1, 2).reshape(batch, length, -1))
        return mixed

    def _eager(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        shared = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        scores = q @ k.transpose(-1, -2) / self._width**0.5
        after = 1 + scores.shape[-1] - scores.shape[-2]
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(after)
        weights: Tensor = scores.masked_fill(ahead, float("-inf")).softmax(-1)
        return weights @ v


def _fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] == k.shape[2], enable_gqa=True)


class Cache:
    """Keys and values of one layer: of ``whole`` tokens from the start on, or as many as there are."""

    def __init__(self, whole: int | None) -> None:
        self._whole = whole
        self._length = 0
        self._keys = self._values = torch.empty(0)

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values, after those of the next tokens."""
        begin, self._length = self._length, self._length + k.shape[2]
        if self._whole is None:
            if begin:
                k, v = torch.cat((self._keys, k), 2), torch.cat((self._values, v), 2)
            self._keys, self._values = k, v
            return k, v
        if not begin:
            self._keys, self._values = (
                torch.zeros(*new.shape[:2], self._whole, new.shape[3], dtype=new.dtype, device=new.device)
                for new in (k, v)
            )
        self._keys[:, :, begin : self._length] = k
        self._values[:, :, begin : self._length] = v
        return self._keys[:, :, : self._length], self._values[:, :, : self._length]


def rotated(heads: Tensor, angles: Tensor) -> Tensor:
    """Each head's pairs of numbers, turned by the angles of their position."""
    first, second = heads.chunk(2, -1)
    cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class FeedForward(nn.Module):
    """SwiGLU: one half gates the other."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x``, token by token."""
        narrowed: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return narrowed


class Layer(nn.Module):
    """Attention, then the feed-forward block; both add to the residual stream."""

    def __init__(self, shape: Shape, is_eager: bool) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.attention = Attention(shape, is_eager)
        self.feed_forward_norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.feed_forward = FeedForward(shape)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """The residual stream after this layer."""
        x = x + self.attention(self.attention_norm(x), angles)
        wider: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return wider


class Llama(nn.Module):
    """Numbers of tokens in, logits out. A stage of a pipeline has some layers, and what is next to them."""

    def __init__(self, shape: Shape, *, is_eager: bool = False, stage: range | None = None) -> None:
        """``stage``: the numbers of its layers; None for all."""
        super().__init__()
        stage = stage if stage is not None else range(shape.layers)
        self._shape, self._recomputes = shape, False
        self.embedding = nn.Embedding(shape.vocab, shape.hidden) if stage.start == 0 else None
        self.layers = nn.ModuleList(Layer(shape, is_eager) for _ in stage)
        self.norm = self.head = None
        if stage.stop == shape.layers:
            self.norm = nn.RMSNorm(shape.hidden, eps=1e-5)
            self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
            if shape.tied and self.embedding is not None:
                self.head.weight = self.embedding.weight

    def forward(self, x: Tensor, begin: int = 0) -> Tensor:
        """Logits of tokens, or what a stage hands on; ``begin``: the first token's position."""
        x = self.hidden(x, begin)
        return self.head(x) if self.head is not None else x

    def hidden(self, x: Tensor, begin: int = 0) -> Tensor:
        """What the head is given."""
        width = self._shape.head_dim
        powers = torch.arange(0, width, 2, device=x.device) / width
        places = torch.arange(begin, begin + x.shape[1], device=x.device)
        angles = torch.outer(places, _THETA**-powers)
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False) if self._recomputes else layer(x, angles)
        return self.norm(x) if self.norm is not None else x

    def loss(self, tokens: Tensor) -> Tensor:
        """Cross entropy with the next token, in fp32."""
        return next_token_loss(self(tokens), tokens)

    def recompute_layers(self) -> None:
        """Keep each layer's input alone; backward computes the layer again."""
        self._recomputes = True

    def decoder(self) -> Decoder:
        """Itself, as the steps of recipes see it."""
        head: Any = self.head
        plan = partial(llama_plan, self)
        return Decoder(self, self.layers, self.hidden, self, self.loss, head, self.recompute_layers, plan)


def next_token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross entropy of ``logits``, in fp32, with the next token of ``tokens``."""
    following = F.pad(tokens[:, 1:], (0, 1), value=-100)
    return F.cross_entropy(logits.float().flatten(0, 1), following.flatten())
