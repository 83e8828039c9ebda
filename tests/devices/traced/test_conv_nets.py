"""Whole convolution networks on the stand-in: what they keep for backward, by hand."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3]))  # the stand-in's process looks for modules here only

from benchmarks.cases.models.convnext import ConvNeXtTiny
from benchmarks.cases.models.resnet import ResNet50
from benchmarks.cases.models.unet import UNet

BATCH = 2


def requested():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        (ResNet50, 25_557_032),  # torchvision, ResNet50_Weights.IMAGENET1K_V1
        (ConvNeXtTiny, 28_589_128),  # torchvision, ConvNeXt_Tiny_Weights.IMAGENET1K_V1
        (UNet, 859_520_964),  # CompVis/stable-diffusion-v1-4, unet
    ],
)
def test_the_networks_have_as_many_parameters_as_the_published_ones(kind, published):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in kind().parameters()) == published


def kept_by_a_resnet(layout, dtype):
    layout = getattr(torch, layout)
    model = ResNet50().to("cuda", memory_format=layout)
    images = torch.randn(BATCH, 3, 224, 224, device="cuda").to(memory_format=layout)
    square = torch.ones(2, 2, device="cuda")
    torch.addmm(square[0], square, square)  # the workspaces of cuBLAS and cuBLASLt
    del square
    before = requested()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
        logits = model(images)
    kept = requested() - before
    return [kept, list(logits.shape)]


def elements_of_resnet50():
    """Of one image: what batch norms and convolutions have as inputs, the pooled stem, and its places."""
    stem = 2 * 64 * 112 * 112
    pooled = 64 * 56 * 56
    kept, size = stem + pooled, 56
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        after = size // stride
        first = width * size**2 + (width + 4 * width) * after**2
        other = (width + width + 4 * width) * after**2
        # of each convolution its result, which batch norm keeps, and what batch norm and ReLU make of it;
        # of the shortcut only the convolution's
        kept += 2 * first + 2 * (blocks - 1) * other + 4 * width * after**2
        size = after
    return kept, pooled


def statistics_bytes():
    """Mean and inverse deviation of each channel: as many numbers as batch norms have parameters."""
    return 4 * 53_120


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
def test_what_resnet50_keeps_in_fp32(trace, layout):
    elements, places = elements_of_resnet50()
    stages = (8_028_160, 5_820_416, 4_114_432, 1_154_048)
    assert elements == 1_605_632 + 200_704 + sum(stages)
    of_images = BATCH * (4 * elements + 8 * places)
    pooled_and_logits = BATCH * 4 * (2048 + 1000)

    kept, shape = trace(kept_by_a_resnet, layout, "float32").value

    assert shape == [BATCH, 1000]
    assert kept == of_images + statistics_bytes() + pooled_and_logits


@pytest.mark.parametrize("layout", ["contiguous_format", "channels_last"])
def test_what_resnet50_keeps_under_autocast(trace, layout):
    """All in bf16 but the statistics; and bf16 copies of the images and of the weights of all products."""
    elements, places = elements_of_resnet50()
    of_images = BATCH * (2 * elements + 8 * places)
    copies = 2 * (25_557_032 - 53_120 - 1000) + 2 * BATCH * 3 * 224 * 224
    pooled_and_logits = BATCH * 2 * (2048 + 1000)

    kept, _ = trace(kept_by_a_resnet, layout, "bfloat16").value

    assert kept == of_images + statistics_bytes() + copies + pooled_and_logits
