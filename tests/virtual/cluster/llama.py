"""A Llama in plain torch, with torchtitan's parallel plan, for the figures that are published of it.

Shapes and plan as in pytorch/torchtitan of 2024-12 (train_configs/llama3_8b.toml,
torchtitan/parallelisms/parallelize_llama.py): rotary positions in fp32, key and value heads repeated,
one ``fully_shard`` a block and one around all, logits and loss in fp32.
"""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

aten = torch.ops.aten
_SAVED = {
    aten.mm.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}


class Norm(nn.Module):
    """RMS norm by single operators, in fp32."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.head = width // heads
        self.repeats = heads // kv_heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, kv_heads * self.head, bias=False)
        self.wv = nn.Linear(width, kv_heads * self.head, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x, turns):
        batch, length, _ = x.shape
        q, k, v = (each(x).view(batch, length, -1, self.head) for each in (self.wq, self.wk, self.wv))
        q, k = self.rotate(q, turns), self.rotate(k, turns)
        k, v = self.repeat(k), self.repeat(v)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return self.wo(out.transpose(1, 2).contiguous().view(batch, length, -1))

    @staticmethod
    def rotate(x, turns):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[: x.shape[1], None]).flatten(3).type_as(x)

    def repeat(self, x):
        batch, length, heads, head = x.shape
        if self.repeats == 1:
            return x
        wide = x[:, :, :, None].expand(batch, length, heads, self.repeats, head)
        return wide.reshape(batch, length, heads * self.repeats, head)


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.attention = Attention(width, heads, kv_heads)
        self.feed_forward = FeedForward(width, hidden)
        self.attention_norm = Norm(width)
        self.ffn_norm = Norm(width)

    def forward(self, x, turns):
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, *, layers, width, heads, kv_heads, hidden, vocabulary, length):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        head = width // heads
        angles = torch.outer(torch.arange(length), 1.0 / 500000 ** (torch.arange(0, head, 2) / head))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = Norm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        return self.output(self.norm(x))


LLAMA_8B = {
    "layers": 32, "width": 4096, "heads": 32, "kv_heads": 8, "hidden": 14336, "vocabulary": 128256,
}  # fmt: skip


def checkpoint_selectively(model):
    """Keep attention and every other product of two matrices; recompute the rest."""

    def contexts():
        seen = Counter()

        def policy(ctx, operator, *args, **kwargs):
            if operator is aten.mm.default:
                seen[ctx.is_recompute] += 1
            every_second = operator is aten.mm.default and seen[ctx.is_recompute] % 2 == 0
            keep = operator in _SAVED and not every_second
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    for index, layer in enumerate(model.layers):
        model.layers[index] = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)


def checkpoint_fully(model):
    for index, layer in enumerate(model.layers):
        model.layers[index] = checkpoint_wrapper(layer, preserve_rng_state=False)


def shard(model, **settings):
    """One group of parameters a block; the last block stays whole between forward and backward."""
    from torch.distributed.fsdp import fully_shard

    for index, layer in enumerate(model.layers):
        fully_shard(layer, reshard_after_forward=index < len(model.layers) - 1, **settings)
    fully_shard(model, **settings)


def train(model, optimizer, *, batch, length, vocabulary, steps=2):
    for _ in range(steps):
        tokens = torch.randint(0, vocabulary, (batch, length), device="cuda")
        labels = torch.randint(0, vocabulary, (batch, length), device="cuda")
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))
        del logits
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
