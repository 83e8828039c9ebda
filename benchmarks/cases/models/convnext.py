"""ConvNeXt-T (Liu et al., 2022): depthwise 7 x 7 convolutions and layer norms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

#: (channels, blocks) of each stage
STAGES = ((96, 3), (192, 3), (384, 9), (768, 3))
LAYER_SCALE = 1e-6


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (batch, channels, height, width)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Block(nn.Module):
    """A depthwise convolution, and two linear layers over the channels of each pixel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.widen = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(LAYER_SCALE * torch.ones(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.depthwise(x).permute(0, 2, 3, 1)
        out = self.narrow(F.gelu(self.widen(self.norm(out))))
        return x + self.scale * out.permute(0, 3, 1, 2)


class ConvNeXtTiny(nn.Module):
    """Images (batch, 3, height, width) to logits; 28,589,128 parameters for 1,000 classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = STAGES[0][0]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 4, 4), ChannelNorm(channels, eps=1e-6)]
        for width, blocks in STAGES:
            if width != channels:
                layers += [ChannelNorm(channels, eps=1e-6), nn.Conv2d(channels, width, 2, 2)]
                channels = width
            layers += [Block(channels) for _ in range(blocks)]
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(x).mean([-2, -1])))
