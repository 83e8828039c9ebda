"""Vision transformers of several makes and sizes."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from ..cases.models.low_bit_adam import AO_8BIT, LowBitAdamW
from ..cases.models.vision_transformer import TimmConfig, TimmViT, TorchvisionViTL16
from .training import MakeOptimizer, on_cuda, trained

BASE = TimmConfig(width=768, depth=12, heads=12, hidden=3072, patch=16)
GIANT = TimmConfig(width=1536, depth=40, heads=24, hidden=8192, gated=True, layer_scale=True)


def large(batch: int) -> None:
    """torchvision's ViT-L/16 in float32, Adam."""
    with on_cuda():
        model = TorchvisionViTL16()
        images = torch.rand(batch, 3, 224, 224)
    trained(model, lambda: model(images).sum(), torch.optim.Adam)


def base(batch: int, checkpointing: bool = False) -> None:
    """A ViT-B/16 as timm has it, under bfloat16 autocast; with reentrant checkpoints of its blocks."""
    with on_cuda():
        model = TimmViT(BASE, checkpointing=checkpointing)
        images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 45, (batch,))
    trained(model, lambda: F.cross_entropy(model(images), labels), autocast=torch.bfloat16)


def giant(batch: int, eight_bits: bool) -> None:
    """A gated ViT-g/14 of 1.1 billion parameters in bfloat16; states in 8 bits, or fused AdamW."""
    make: MakeOptimizer = partial(torch.optim.AdamW, fused=True)
    if eight_bits:
        make = partial(LowBitAdamW, layout=AO_8BIT)
    with on_cuda(torch.bfloat16):
        model = TimmViT(GIANT)
        images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 45, (batch,))
    trained(model, lambda: F.cross_entropy(model(images), labels), make)
