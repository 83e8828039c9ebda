"""A Llama in plain torch, with torchtitan's parallel plan, for the figures that are published of it.

Shapes and plan as in pytorch/torchtitan of 2024-12 to 2025-03 (train_configs/llama3_8b.toml,
torchtitan/models/llama/model.py, torchtitan/parallelisms/parallelize_llama.py): rotary positions in fp32,
key and value heads repeated, one ``fully_shard`` a block and one around all, logits and loss in fp32. The
operators come in its order and their results live as long: what the allocator holds depends on both.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

#: Whether blocks give their whole parameters back between forward and backward; by default all but the last.
Reshards = Literal["default", "always", "never"]

aten = torch.ops.aten
_SAVED = {
    aten.mm.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


class Norm(nn.Module):
    """RMS norm by single operators, in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` over its root mean square, scaled."""
        return self._normed(x.float()).type_as(x) * self.weight

    def _normed(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def rotated(q: Tensor, k: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """Both, pair by pair turned in fp32: of both all pairs, then both products."""
    pairs_q = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    pairs_k = torch.view_as_complex(k.float().reshape(*k.shape[:-1], -1, 2))
    turns = turns[: q.shape[1], None]
    out_q = torch.view_as_real(pairs_q * turns).flatten(3)
    out_k = torch.view_as_real(pairs_k * turns).flatten(3)
    return out_q.type_as(q), out_k.type_as(k)


class Attention(nn.Module):
    """Causal attention with rotary positions; shared heads are repeated."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.head = width // heads
        self.repeats = heads // kv_heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, kv_heads * self.head, bias=False)
        self.wv = nn.Linear(width, kv_heads * self.head, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        batch, length, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (one.view(batch, length, -1, self.head) for one in (q, k, v))
        q, k = rotated(q, k, turns)
        keys, values = self._repeated(k), self._repeated(v)
        q, k, v = q.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = out.transpose(1, 2).contiguous()
        result: Tensor = self.wo(out.view(batch, length, -1))
        return result

    def _repeated(self, x: Tensor) -> Tensor:
        batch, length, heads, head = x.shape
        if self.repeats == 1:
            return x
        wide = x[:, :, :, None].expand(batch, length, heads, self.repeats, head)
        return wide.reshape(batch, length, heads * self.repeats, head)


class FeedForward(nn.Module):
    """``w2(silu(w1(x)) * w3(x))``."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        result: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return result


class Block(nn.Module):
    """One layer."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.feed_forward = FeedForward(width, hidden)
        self.attention_norm = Norm(width)
        self.ffn_norm = Norm(width)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """The whole model: token numbers to logits."""

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        kv_heads: int,
        hidden: int,
        vocabulary: int,
        length: int,
    ) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        head = width // heads
        angles = torch.outer(torch.arange(length), 1.0 / 500000 ** (torch.arange(0, head, 2) / head))
        self.turns: Tensor
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = Norm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, length] to [batch, length, vocabulary]."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        result: Tensor = self.output(self.norm(x))
        return result


LLAMA_8B = {
    "layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "hidden": 14336, "vocabulary": 128256,
}  # fmt: skip


def checkpoint_selectively(model: Llama) -> None:
    """Keep attention and every other product of two matrices; recompute the rest."""

    def contexts() -> Any:
        seen = Counter[bool]()

        def policy(ctx: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if operator is aten.mm.default:
                seen[ctx.is_recompute] += 1
            every_second = operator is aten.mm.default and seen[ctx.is_recompute] % 2 == 0
            keep = operator in _SAVED and not every_second
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    for index, layer in enumerate(model.layers):
        model.layers[index] = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)


def checkpoint_fully(model: Llama) -> None:
    """Recompute whole layers."""
    for index, layer in enumerate(model.layers):
        model.layers[index] = checkpoint_wrapper(layer, preserve_rng_state=False)


def shard(model: Llama, reshards: Reshards = "default", **settings: Any) -> None:
    """One group of parameters a block, and one of the rest."""
    from torch.distributed.fsdp import fully_shard

    last = len(model.layers) - 1
    for index, layer in enumerate(model.layers):
        after_forward = {"always": True, "never": False, "default": index < last}[reshards]
        fully_shard(layer, reshard_after_forward=after_forward, **settings)
    fully_shard(model, **settings)


def train(
    model: Llama,
    optimizer: torch.optim.Optimizer,
    *,
    batch: int,
    length: int,
    vocabulary: int,
    steps: int = 2,
) -> list[int]:
    """Train for some steps; what was reserved at most by the end of each, in bytes."""
    reserved_bytes = []
    for _ in range(steps):
        tokens = torch.randint(0, vocabulary, (batch, length), device="cuda")
        labels = torch.randint(0, vocabulary, (batch, length), device="cuda")
        optimizer.zero_grad()
        logits = model(tokens)
        loss = loss_of(logits, labels)
        del logits
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        reserved_bytes.append(torch.cuda.max_memory_reserved())
    return reserved_bytes


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy in fp32; the copies of the logits end with it."""
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def compile_blocks(model: Llama) -> None:
    """Each block by itself, after its checkpoints (``apply_compile``)."""
    for index, layer in enumerate(model.layers):
        compiled: Any = torch.compile(layer, fullgraph=True)
        model.layers[index] = compiled


def pretrain_8b(
    length: int, batch: int, reshards: Reshards = "default", *, compiled: bool = False
) -> list[int]:
    """Two steps of Llama 3 8B as torchtitan's llama3_8b.toml has it, on this rank's part of all GPUs."""
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with torch.device("meta"):
        model = Llama(**LLAMA_8B, length=length)
    checkpoint_selectively(model)
    if compiled:
        compile_blocks(model)
    shard(model, reshards, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return train(model, optimizer, batch=batch, length=length, vocabulary=128256)
