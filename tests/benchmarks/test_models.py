"""The convolution networks of published cases have as many parameters as the published ones."""

import pytest
import torch

from benchmarks.cases.models.convnext import ConvNeXtTiny
from benchmarks.cases.models.resnet import ResNet50
from benchmarks.cases.models.unet import UNet


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        (ResNet50, 25_557_032),  # torchvision, ResNet50_Weights.IMAGENET1K_V1
        (ConvNeXtTiny, 28_589_128),  # torchvision, ConvNeXt_Tiny_Weights.IMAGENET1K_V1
        (UNet, 859_520_964),  # CompVis/stable-diffusion-v1-4, unet
    ],
)
def test_parameters(kind, published):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in kind().parameters()) == published
