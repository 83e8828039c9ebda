"""torchao: 8-bit, 4-bit and float8 optimizers, states on the host, quantised and float8 linear layers."""

import pytest
import torch
from torch import nn

pytest.importorskip("torchao.optim")
pytest.importorskip("torchao.float8")

import torchao.optim
from torchao.float8 import convert_to_float8_training
from torchao.quantization import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
)

WIDTH = 1024


def feed_forward():
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
    return model.to("cuda", torch.bfloat16)


def batch():
    return torch.randn(64, WIDTH, device="cuda", dtype=torch.bfloat16)


def train(model, optimizer):
    for _ in range(2):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gib=0.5)
@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit", "AdamWFp8"])
def test_optimizer(name):
    model = feed_forward()
    train(model, getattr(torchao.optim, name)(model.parameters(), lr=1e-3))


@pytest.mark.mem_budget(gib=0.3, host_gib=0.2)
def test_states_on_the_host():
    model = feed_forward()
    train(model, torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True))


@pytest.mark.mem_budget(gib=0.3)
@pytest.mark.parametrize(
    "config",
    [
        Int8WeightOnlyConfig,
        Int8DynamicActivationInt8WeightConfig,
        Float8WeightOnlyConfig,
        Float8DynamicActivationFloat8WeightConfig,
    ],
)
def test_quantised_for_inference(config):
    model = feed_forward()
    quantize_(model, config())
    with torch.no_grad():
        model(batch())


@pytest.mark.mem_budget(gib=0.3)
def test_float8_training():
    model = feed_forward()
    convert_to_float8_training(model)
    train(model, torch.optim.AdamW(model.parameters(), fused=True))
