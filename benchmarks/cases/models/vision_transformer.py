"""Vision transformers as timm and torchvision have them: what each keeps for backward, and in which order.

Written after huggingface/pytorch-image-models@ea33d6a7 of August 2024 (timm/models/vision_transformer.py,
timm/layers/mlp.py) and pytorch/vision v0.16 (torchvision/models/vision_transformer.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class TimmConfig:
    """Shape of a timm vision transformer at 224 x 224."""

    width: int
    depth: int
    heads: int
    hidden: int
    gated: bool = False
    """Two hidden widths in one product, the first gating the second through a SiLU."""
    layer_scale: bool = False
    patch: int = 14
    image: int = 224
    classes: int = 45


class Attention(nn.Module):
    """One product for queries, keys and values; ``scaled_dot_product_attention``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        out: torch.Tensor = self.proj(x.transpose(1, 2).reshape(batch, tokens, width))
        return out


class MLP(nn.Module):
    """GELU between two products, or a gate."""

    def __init__(self, config: TimmConfig) -> None:
        super().__init__()
        self.gated = config.gated
        self.fc1 = nn.Linear(config.width, config.hidden)
        self.fc2 = nn.Linear(config.hidden // 2 if config.gated else config.hidden, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        x = self.fc1(x)
        if self.gated:
            gate, up = x.chunk(2, dim=-1)
            x = F.silu(gate) * up
        else:
            x = F.gelu(x)
        out: torch.Tensor = self.fc2(x)
        return out


class LayerScale(nn.Module):
    """One learned factor a channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(1e-5 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` scaled."""
        return x * self.gamma


class Block(nn.Module):
    """Norm, attention, norm, MLP, each added to its input."""

    def __init__(self, config: TimmConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=1e-6)
        self.attn = Attention(config.width, config.heads)
        self.ls1 = LayerScale(config.width) if config.layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(config.width, eps=1e-6)
        self.mlp = MLP(config)
        self.ls2 = LayerScale(config.width) if config.layer_scale else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        x = x + self.ls1(self.attn(self.norm1(x)))
        out: torch.Tensor = x + self.ls2(self.mlp(self.norm2(x)))
        return out


class TimmViT(nn.Module):
    """timm's ``VisionTransformer`` with a class token, and reentrant checkpoints of single blocks."""

    def __init__(self, config: TimmConfig, *, checkpointing: bool = False) -> None:
        super().__init__()
        self.checkpointing = checkpointing
        tokens = (config.image // config.patch) ** 2 + 1
        self.patch_embed = nn.Conv2d(3, config.width, kernel_size=config.patch, stride=config.patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, config.width) * 0.02)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.depth)))
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images (batch, 3, height, width)."""
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True) if self.checkpointing else block(x)
        x = self.norm(x)
        x = x[:, 0]
        out: torch.Tensor = self.head(x)
        return out


class TorchvisionBlock(nn.Module):
    """torchvision's ``EncoderBlock``: ``nn.MultiheadAttention`` over (batch, tokens, width)."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width)."""
        x = self.ln_1(given)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = x + given
        y = self.fc2(F.gelu(self.fc1(self.ln_2(x))))
        out: torch.Tensor = x + y
        return out


class TorchvisionViTL16(nn.Module):
    """torchvision's ``vit_l_16``: 304,326,632 parameters, 197 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 1024, kernel_size=16, stride=16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 1024))
        self.pos_embedding = nn.Parameter(torch.empty(1, 197, 1024).normal_(std=0.02))
        self.layers = nn.Sequential(*(TorchvisionBlock(1024, 16, 4096) for _ in range(24)))
        self.ln = nn.LayerNorm(1024, eps=1e-6)
        self.head = nn.Linear(1024, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images (batch, 3, 224, 224)."""
        batch = x.shape[0]
        x = self.conv_proj(x).reshape(batch, 1024, 196).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(batch, -1, -1), x], dim=1)
        x = self.ln(self.layers(x + self.pos_embedding))
        out: torch.Tensor = self.head(x[:, 0])
        return out
