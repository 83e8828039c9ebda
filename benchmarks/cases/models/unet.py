"""The U-Net of Stable Diffusion 1 (Rombach et al., 2022): residual blocks and transformers over pixels."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

WIDTHS = (320, 640, 1280, 1280)
TIME = 1280
TEXT = 768
HEADS = 8
GROUPS = 32


class Residual(nn.Module):
    """Two convolutions, each after group norm and SiLU; the time is added between them."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, channels)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(TIME, width)
        self.norm2 = nn.GroupNorm(GROUPS, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        out = self.conv1(F.silu(self.norm1(x)))
        out = out + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(out)))


class Attention(nn.Module):
    """Attention of ``x`` to ``context``, or to itself; (batch, length, width)."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context, width, bias=False)
        self.value = nn.Linear(context, width, bias=False)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            tensor.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for tensor in (self.query(x), self.key(context), self.value(context))
        )
        out = F.scaled_dot_product_attention(query, key, value)
        return self.output(out.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Self-attention, attention to the text, and a gated layer, over all pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, width, eps=1e-6)
        self.enter = nn.Conv2d(width, width, 1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.to_self = Attention(width, width)
        self.to_text = Attention(width, TEXT)
        self.gate = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        height = x.shape[2]
        out = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        normed = self.norm1(out)
        out = out + self.to_self(normed, normed)
        out = out + self.to_text(self.norm2(out), text)
        value, gate = self.gate(self.norm3(out)).chunk(2, dim=-1)
        out = out + self.narrow(value * F.gelu(gate))
        return x + self.leave(out.transpose(1, 2).unflatten(2, (height, -1)))


class Upsample(nn.Module):
    """Twice as high and wide, then a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    """Latents (batch, 4, height, width), times and text to noise; 859,520,964 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTHS[0], TIME), nn.SiLU(), nn.Linear(TIME, TIME))
        self.enter = nn.Conv2d(4, WIDTHS[0], 3, padding=1)
        self.down = nn.ModuleList()
        channels, kept = WIDTHS[0], [WIDTHS[0]]
        for level, width in enumerate(WIDTHS):
            last = level == len(WIDTHS) - 1
            for _ in range(2):
                self.down.append(_step(channels, width, with_text=not last))
                channels = width
                kept.append(width)
            if not last:
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, 2, padding=1)]))
                kept.append(width)
        self.middle = nn.ModuleList([
            Residual(channels, channels), Transformer(channels), Residual(channels, channels)
        ])  # fmt: skip
        self.up = nn.ModuleList()
        for level, width in reversed(list(enumerate(WIDTHS))):
            for place in range(3):
                step = _step(channels + kept.pop(), width, with_text=level != len(WIDTHS) - 1)
                channels = width
                if place == 2 and level:
                    step.append(Upsample(width))
                self.up.append(step)
        self.norm = nn.GroupNorm(GROUPS, channels)
        self.leave = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, times: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        time = self.time(_sinusoids(times, WIDTHS[0]).to(x.dtype))
        x = self.enter(x)
        kept = [x]
        for step in self.down:
            x = _run(step, x, time, text)
            kept.append(x)
        x = _run(self.middle, x, time, text)
        for step in self.up:
            x = _run(step, torch.cat([x, kept.pop()], dim=1), time, text)
        return self.leave(F.silu(self.norm(x)))


def _step(channels: int, width: int, *, with_text: bool) -> nn.ModuleList:
    return nn.ModuleList([Residual(channels, width), *([Transformer(width)] if with_text else [])])


def _run(step: nn.ModuleList, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    for layer in step:
        if isinstance(layer, Residual):
            x = layer(x, time)
        else:
            x = layer(x, text) if isinstance(layer, Transformer) else layer(x)
    return x


def _sinusoids(times: torch.Tensor, width: int) -> torch.Tensor:
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=times.device)
    angles = times[:, None].float() * torch.exp(-math.log(10000) * steps / half)
    return torch.cat([angles.cos(), angles.sin()], dim=-1)
