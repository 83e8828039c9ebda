"""A Llama in plain torch with its parallel plan: tensor and sequence parallel, checkpointing, FSDP2.

The plan is the usual one of pretraining (torchtitan's): the residual stream is split along the sequence
between the tensor-parallel ranks, the matrices along their heads or hidden units, and what is left of every
block is a group of parameters of ``fully_shard``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a Llama; the defaults are those of Llama 3 8B."""

    vocabulary: int = 128_256
    layers: int = 32
    width: int = 4096
    heads: int = 32
    kv_heads: int = 8
    hidden: int = 14_336
    rope_theta: float = 500_000.0


class Attention(nn.Module):
    """Causal attention with rotary positions; several query heads share a key and a value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_width = config.width // config.heads
        kv_width = config.kv_heads * self.head_width
        self.wq = nn.Linear(config.width, config.width, bias=False)
        self.wk = nn.Linear(config.width, kv_width, bias=False)
        self.wv = nn.Linear(config.width, kv_width, bias=False)
        self.wo = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        batch, length, _ = x.shape
        # -1: under tensor parallelism a rank has only some of the heads
        q, k, v = (w(x).view(batch, length, -1, self.head_width) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, angles), rotate(k, angles)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(heads: Tensor, angles: Tensor) -> Tensor:
    """Turn each head's pairs of numbers by the angles of its position."""
    even, odd = heads.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2).type_as(heads)


class FeedForward(nn.Module):
    """SwiGLU: one half gates the other."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention, then the feed-forward layer; both add to the residual stream."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config)
        self.ffn_norm = nn.RMSNorm(config.width, eps=1e-5)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Token numbers (batch, length) in, logits (batch, length, vocabulary) out."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.output = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        angles = self.angles(tokens.shape[1], tokens.device)
        x = self.embeddings(tokens)
        for block in self.blocks:
            x = block(x, angles)
        return self.output(self.norm(x))

    def angles(self, length: int, device: torch.device) -> Tensor:
        """The angle of each position and pair: (length, head width / 2)."""
        head_width = self.config.width // self.config.heads
        powers = torch.arange(0, head_width, 2, device=device) / head_width
        return torch.outer(torch.arange(length, device=device), self.config.rope_theta**-powers)


def apply_tensor_parallel(model: Llama, mesh: DeviceMesh) -> None:
    """Split matrices along heads and hidden units, and the residual stream along the sequence."""
    sequence, whole = Shard(1), Replicate()
    ends = {
        "embeddings": RowwiseParallel(input_layouts=whole, output_layouts=sequence),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=sequence, use_local_output=False),  # for loss_parallel
    }
    parallelize_module(model, mesh, ends)
    for block in model.blocks:
        plan: dict[str, Any] = {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(
                input_layouts=(sequence, None), desired_input_layouts=(whole, None)
            ),
            "attention.wo": RowwiseParallel(output_layouts=sequence),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(input_layouts=(sequence,), desired_input_layouts=(whole,)),
            "feed_forward.down": RowwiseParallel(output_layouts=sequence),
        }
        by_columns = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.gate", "feed_forward.up")
        plan |= {name: ColwiseParallel() for name in by_columns}
        parallelize_module(block, mesh, plan)


def apply_checkpointing(model: Llama) -> None:
    """Keep each block's input alone; the rest is computed again in backward."""
    for index, block in enumerate(model.blocks):
        model.blocks[index] = checkpoint_wrapper(block, preserve_rng_state=False)


def shard(model: Llama, **settings: Any) -> Llama:
    """FSDP2: each block is a group of parameters, gathered when its turn comes, and so is the output.

    The embeddings are the outermost group: they stay whole from the forward to the end of backward.
    """
    for layer in (*model.blocks, model.output):
        fully_shard(layer, **settings)
    return fully_shard(model, **settings)


def materialize(model: Llama, device: str = "cuda") -> Llama:
    """Give a model that was made on meta its memory, a rank's own shards, and numbers to begin with."""
    model.to_empty(device=device)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            nn.init.ones_(parameter)
        elif name.endswith("lora_b.weight"):
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=0.02)
    return model


class LoRALinear(nn.Module):
    """A frozen linear layer plus a product of two thin matrices that are trained."""

    def __init__(self, frozen: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.scale = alpha / rank
        self.lora_a = nn.Linear(frozen.in_features, rank, bias=False, dtype=frozen.weight.dtype)
        self.lora_b = nn.Linear(rank, frozen.out_features, bias=False, dtype=frozen.weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + self.lora_b(self.lora_a(x)) * self.scale


def add_lora(model: Llama, rank: int = 8, alpha: float = 16.0) -> None:
    """Freeze ``model``, and train adapters of attention's queries and values."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("wq", "wv"):
            setattr(block.attention, name, LoRALinear(getattr(block.attention, name), rank, alpha))
