"""Convolution networks: classification, volumes, a diffusion model's U-Net, a decoder of images."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..cases.models.convnext import ConvNeXtTiny
from ..cases.models.resnet import ResNet50
from ..cases.models.unet import TEXT, UNet
from .training import TYPES, MakeOptimizer, adamw, on_cuda, trained

_KINDS: dict[str, type[nn.Module]] = {"resnet50": ResNet50, "convnext": ConvNeXtTiny}
_LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """With momentum, as convolution networks are trained."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def classified(kind: str, batch: int, size: int, layout: str = "nchw", autocast: str = "") -> None:
    """Images to classes."""
    with on_cuda():
        model = _KINDS[kind]().to(memory_format=_LAYOUTS[layout])  # type: ignore[call-overload]
        images = torch.randn(batch, 3, size, size).to(memory_format=_LAYOUTS[layout])
        labels = torch.randint(0, 1000, (batch,))
    loss = lambda: F.cross_entropy(model(images), labels)  # noqa: E731
    trained(model, loss, sgd, autocast=TYPES[autocast] if autocast else None)


def classified_in_inference(kind: str, batch: int) -> None:
    """Images to classes in float16, nothing kept."""
    with on_cuda(torch.float16):
        model = _KINDS[kind]().eval()
        images = torch.randn(batch, 3, 224, 224)
    with torch.inference_mode():
        for _ in range(2):
            model(images)


def denoised(batch: int, size: int) -> None:
    """Stable Diffusion's U-Net, twice, in float16 without gradients."""
    with on_cuda(torch.float16):
        model = UNet()
        latents, text = torch.randn(batch, 4, size, size), torch.randn(batch, 77, TEXT)
    with torch.inference_mode():
        for _ in range(2):
            model(latents, torch.zeros(batch, device="cuda"), text)


def diffused(batch: int, size: int, make: MakeOptimizer = adamw) -> None:
    """Stable Diffusion's U-Net, trained under bfloat16 autocast."""
    with on_cuda():
        model = UNet()
        latents, noise = torch.randn(batch, 4, size, size), torch.randn(batch, 4, size, size)
        text, times = torch.randn(batch, 77, TEXT), torch.zeros(batch)
    trained(model, lambda: F.mse_loss(model(latents, times, text), noise), make, autocast=torch.bfloat16)


def volumes(batch: int, size: int) -> None:
    """Convolutions over volumes, down and up again by transposed ones, in float32."""
    with on_cuda():
        model = nn.Sequential(
            nn.Conv3d(1, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(inplace=True), nn.MaxPool3d(2),
            nn.Conv3d(32, 64, 3, padding=1), nn.BatchNorm3d(64), nn.ReLU(inplace=True),
            nn.ConvTranspose3d(64, 32, 2, 2), nn.ReLU(inplace=True), nn.Conv3d(32, 1, 1),
        )  # fmt: skip
        x = torch.randn(batch, 1, size, size, size)
    trained(model, lambda: F.mse_loss(model(x), x))


class Separable(nn.Module):
    """A convolution a channel, then one over channels; batch norm and ReLU6 after each."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
            nn.BatchNorm2d(channels), nn.ReLU6(inplace=True),
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6(inplace=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height / stride, width / stride)."""
        out: Tensor = self.layers(x)
        return out


def separable(batch: int, size: int) -> None:
    """A network of separable convolutions on images of an odd size."""
    widths = (32, 64, 128, 128, 256, 256, 512)
    with on_cuda():
        layers = [Separable(a, b, 2 if b > a else 1) for a, b in itertools.pairwise(widths)]
        model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        x = torch.randn(batch, 3, size, size)
    trained(model, lambda: model(x).square().mean(), sgd)
