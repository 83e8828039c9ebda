"""A vision transformer (Dosovitskiy et al., 2020); its defaults are ViT-L/16 as torchvision has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ViTConfig:
    """The shape of a vision transformer; the defaults are ViT-L/16's."""

    image_size: int = 224
    patch_size: int = 16
    layers: int = 24
    heads: int = 16
    width: int = 1024
    mlp_width: int = 4096
    classes: int = 1000


class VisionTransformer(nn.Module):
    """Images ``(batch, 3, size, size)`` in, logits ``(batch, classes)`` out."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        patches = (config.image_size // config.patch_size) ** 2
        self.patches = nn.Conv2d(3, config.width, kernel_size=config.patch_size, stride=config.patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = nn.Parameter(torch.empty(1, 1 + patches, config.width).normal_(std=0.02))
        self.blocks = nn.Sequential(*(self.block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width, eps=1e-6)
        self.head = nn.Linear(config.width, config.classes)

    @staticmethod
    def block(config: ViTConfig) -> nn.TransformerEncoderLayer:
        return nn.TransformerEncoderLayer(
            config.width,
            config.heads,
            config.mlp_width,
            dropout=0.0,
            activation="gelu",
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=True,
        )

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)  # (batch, patches, width)
        class_token = self.class_token.expand(len(images), -1, -1)
        x = torch.cat([class_token, patches], dim=1) + self.positions
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0])
