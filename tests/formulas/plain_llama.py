"""A Llama of plain torch modules, with the operators that torchtitan's has, for the stand-in."""

from collections import defaultdict

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.width, self.times = hidden // heads, heads // kv_heads
        self.wq = nn.Linear(hidden, hidden, bias=False)
        self.wk = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.wv = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, turns):
        rows, length, _ = x.shape
        q, k, v = (project(x).view(rows, length, -1, self.width) for project in (self.wq, self.wk, self.wv))
        q, k = turned(q, k, turns)
        k, v = repeated(k, self.times), repeated(v, self.times)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        result = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(result.transpose(1, 2).contiguous().view(rows, length, -1))


def turned(q, k, turns):
    pairs = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k)]
    turns = turns[: q.shape[1]].view(1, q.shape[1], 1, -1)
    q_out, k_out = (torch.view_as_real(pair * turns).flatten(3) for pair in pairs)
    return q_out.type_as(q), k_out.type_as(k)


def repeated(x, times):
    if times == 1:
        return x
    rows, length, heads, width = x.shape
    return x.unsqueeze(3).expand(rows, length, heads, times, width).reshape(rows, length, -1, width)


class FeedForward(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.w1 = nn.Linear(hidden, inner, bias=False)
        self.w2 = nn.Linear(inner, hidden, bias=False)
        self.w3 = nn.Linear(hidden, inner, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, inner):
        super().__init__()
        self.attention, self.feed_forward = Attention(hidden, heads, kv_heads), FeedForward(hidden, inner)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)

    def forward(self, x, turns):
        middle = x + self.attention(self.attention_norm(x), turns)
        return middle + self.feed_forward(self.ffn_norm(middle))


class Llama(nn.Module):
    def __init__(self, vocab, hidden, heads, kv_heads, inner, layers, length, mode):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList([Block(hidden, heads, kv_heads, inner) for _ in range(layers)])
        self.norm = nn.RMSNorm(hidden)
        self.output = nn.Linear(hidden, vocab, bias=False)
        angles = torch.ones(length, hidden // heads // 2, dtype=torch.float32)  # polar takes no bf16
        self.turns = nn.Buffer(torch.polar(angles, angles), persistent=False)
        self.mode = mode

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for number, layer in enumerate(self.layers):
            x = self.run_layer(layer, x, number)
        return self.output(self.norm(x))

    def run_layer(self, layer, x, number):
        every = int(self.mode) if self.mode.isdigit() else 1
        if self.mode == "none" or (number + 1) % every:
            return layer(x, self.turns)
        options = {"context_fn": selective} if self.mode == "op" else {}
        return checkpoint(layer, x, self.turns, use_reentrant=False, **options)


def selective():
    """Every other ``mm`` from the first on, and attention, are kept."""
    aten, counts = torch.ops.aten, defaultdict(int)
    attention = (
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_cudnn_attention.default,
    )

    def policy(context, operator, *args, **kwargs):
        if operator is aten.mm.default:
            counts[context.is_recompute] += 1
            keeps = counts[context.is_recompute] % 2 == 1
        else:
            keeps = operator in attention
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def training(vocab, hidden, heads, kv_heads, inner, layers, rows, length, mode, fused=None):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Llama(vocab, hidden, heads, kv_heads, inner, layers, length, mode)
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    tokens = torch.randint(0, vocab, (rows, length), device="cuda")
    labels = torch.randint(0, vocab, (rows, length), device="cuda")
    for _ in range(2):
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))
        del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
