"""The regressor of JasperSolt/EoR_NN (regressors/latent_cnn.py at 6686e9f): convolutions over light cones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

SLICES = 30
PIXELS = 256
WIDTHS = (16, 32, 64)
FEATURES = (200, 100, 20)


class EorRegressor(nn.Module):
    """(batch, 30, 256, 256) to (batch, 1): convolution, ReLU, batch norm, pooling; then linear layers."""

    def __init__(self) -> None:
        super().__init__()
        channels = (SLICES, *WIDTHS)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding="same")
            for before, after in zip(channels, WIDTHS, strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in WIDTHS)
        sizes = (WIDTHS[-1], *FEATURES)
        self.linears = nn.ModuleList(
            nn.Linear(before, after) for before, after in zip(sizes, FEATURES, strict=False)
        )
        self.out = nn.Linear(FEATURES[-1], 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.max_pool2d(norm(F.relu(convolution(x))), 2)
        x = F.max_pool2d(x, PIXELS // 2 ** len(WIDTHS)).flatten(1)
        for linear in self.linears:
            x = F.relu(linear(F.dropout(x, 0.2, self.training)))
        return self.out(x)
