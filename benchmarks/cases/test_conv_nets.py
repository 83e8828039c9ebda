"""Convolution networks: a recorded one; ResNet-50, ConvNeXt-T and a U-Net in their usual layouts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .models.convnext import ConvNeXtTiny
from .models.eor_cnn import PIXELS, SLICES, EorRegressor
from .models.resnet import ResNet50
from .models.unet import TEXT, UNet
from .steps import Record, record_step, start_step

NCHW, NHWC = torch.contiguous_format, torch.channels_last


@pytest.mark.mem_budget(gpu="RTX-3090")
def test_eor_counterfactual() -> None:
    """The loop of counterfactuals.py: the image is what is trained, and the network's weights are not.

    Two of its iterations: all after the first are alike.
    """
    model = EorRegressor().cuda()
    for parameter in model.parameters():
        parameter.requires_grad = False
    x = torch.randn(1, SLICES, PIXELS, PIXELS)
    y = model(x.cuda())
    with torch.autograd.set_detect_anomaly(True):
        _search(model, x, y)


def _search(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    other = x + torch.randn_like(x)
    x, other = x.cuda(), other.cuda()
    other.requires_grad = True
    optimizer = torch.optim.Adam([other], lr=0.1)
    for _ in range(2):
        y_other = model(other)
        loss = _distance(other, x) - (y_other - y) ** 2
        x_loss = _distance(other, x).detach()  # noqa: F841 - its memory lives until it is rebound
        y_loss = -((y_other - y) ** 2).detach()  # noqa: F841
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return ((first - second) ** 2).mean()


@pytest.mark.mem_budget(gpu="RTX-A6000")
@pytest.mark.parametrize(
    ("dtype", "tf32"),
    [
        pytest.param(torch.float32, True, id="r50-b256-fp32-tf32"),
        pytest.param(torch.float32, False, id="r50-b256-fp32-strict"),
        pytest.param(torch.float16, True, id="r50-b256-fp16-amp"),
        pytest.param(torch.bfloat16, True, id="r50-b256-bf16-amp"),
    ],
)
def test_mixed_precision(record_property: Record, dtype: torch.dtype, tf32: bool) -> None:
    """256 images, SGD with momentum; the peak is that of the steps after the first ones."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    amp = dtype is not torch.float32
    model = ResNet50().cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss().cuda()
    scaler = torch.amp.GradScaler(enabled=amp)
    images = torch.randn(256, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (256,), device="cuda")

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=dtype if amp else torch.float16, enabled=amp):
            output = model(images)
            loss = loss_of(output, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    for _ in range(2):
        step()
    start_step()
    for _ in range(2):
        step()
    record_step(record_property)


@pytest.mark.mem_budget(gpu="A100-80GB")
def test_half_volume() -> None:
    """The script of pytorch/pytorch#95024 with x_dim = 361: the input, the output and a workspace."""
    images = torch.rand(1, 64, 361, 370, 251).half().cuda()
    layer = nn.Conv3d(in_channels=64, out_channels=32, kernel_size=3, stride=1, padding=1).half().cuda()
    layer(images)


@pytest.mark.mem_budget(gpu="A100-80GB")
def test_fp32_volume() -> None:
    """The script of pytorch/pytorch#128947 with four slices."""
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    layer = nn.Conv3d(256, 64, kernel_size=(3, 3, 3), stride=(1, 1, 1)).cuda()
    layer(torch.rand(1, 256, 4, 1090, 1922).cuda())


@pytest.mark.mem_budget(gpu="A100-80GB")
@pytest.mark.parametrize("amp", [pytest.param(False, id="fp32"), pytest.param(True, id="bf16")])
@pytest.mark.parametrize("layout", [pytest.param(NCHW, id="nchw"), pytest.param(NHWC, id="nhwc")])
@pytest.mark.parametrize("kind", [ResNet50, ConvNeXtTiny])
def test_training(kind: type[nn.Module], layout: torch.memory_format, amp: bool) -> None:
    model = kind().to("cuda", memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        images = torch.randn(32, 3, 224, 224).cuda().to(memory_format=layout)
        labels = torch.randint(0, 1000, (32,)).cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.mem_budget(gpu="A100-80GB")
@pytest.mark.parametrize("layout", [pytest.param(NCHW, id="nchw"), pytest.param(NHWC, id="nhwc")])
@pytest.mark.parametrize("kind", [ResNet50, ConvNeXtTiny])
def test_inference(kind: type[nn.Module], layout: torch.memory_format) -> None:
    model = kind().eval().to("cuda", torch.float16, memory_format=layout)  # type: ignore[call-overload]
    images = torch.randn(32, 3, 224, 224, dtype=torch.float16).cuda().to(memory_format=layout)
    with torch.inference_mode():
        model(images)


@pytest.mark.mem_budget(gpu="A100-80GB")
@pytest.mark.parametrize("layout", [pytest.param(NCHW, id="nchw"), pytest.param(NHWC, id="nhwc")])
def test_denoising(layout: torch.memory_format) -> None:
    """One step at 512 x 512 pixels, with and without the prompt."""
    model = UNet().to("cuda", torch.float16, memory_format=layout)  # type: ignore[call-overload]
    latents = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.float16).to(memory_format=layout)
    text = torch.randn(2, 77, TEXT, device="cuda", dtype=torch.float16)
    with torch.inference_mode():
        model(latents, torch.zeros(2, device="cuda"), text)
