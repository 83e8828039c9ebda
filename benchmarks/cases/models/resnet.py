"""ResNet-50 (He et al., 2015), with the stride in the bottleneck's 3 x 3 convolution (version 1.5)."""

from __future__ import annotations

import torch
from torch import nn

#: (width, blocks, stride) of each stage
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3, 1 x 1, each with batch norm, around which the input is added."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != wide:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet50(nn.Module):
    """Images (batch, 3, height, width) to logits; 25,557,032 parameters for 1,000 classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels, stages = 64, []
        for width, blocks, stride in STAGES:
            steps = [stride] + [1] * (blocks - 1)
            layers = []
            for step in steps:
                layers.append(Bottleneck(channels, width, step))
                channels = width * EXPANSION
            stages.append(nn.Sequential(*layers))
        self.layers = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))
