"""Norms, feed-forward layers and rotary positions by themselves: PyTorch's side of Liger-Kernel's benchmarks.

linkedin/Liger-Kernel, benchmark/scripts/benchmark_*.py at the release that each published figure names; the
figures are in benchmark/data/all_benchmark_data.csv.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from .models.single_layers import GatedMLP, LlamaRMSNorm, LlamaRotaryEmbedding, rotated
from .repeated_calls import budget, cases, leaf, leave_workspaces, record_repeated, trained
from .steps import Record

BFLOAT16 = torch.bfloat16
WIDTH, HIDDEN = 4096, 11_008


def feed_forward(batch: int, tokens: int, activation: nn.Module, mode: str, record: Record) -> None:
    leave_workspaces()
    x = leaf(batch, tokens, WIDTH, dtype=BFLOAT16)
    layer = GatedMLP(WIDTH, HIDDEN, activation).to("cuda").to(BFLOAT16)
    if mode == "forward":
        record_repeated(record, lambda: layer(x))
    elif mode == "backward":
        gradient = torch.randn_like(x)
        y = layer(x)
        record_repeated(record, lambda: y.backward(gradient, retain_graph=True))
    else:

        def full() -> None:
            y = layer(x)
            y.backward(torch.randn_like(y), retain_graph=True)

        record_repeated(record, full)


@budget("A100-80GB")
@pytest.mark.parametrize(
    ("mode", "tokens"),
    [
        pytest.param(mode, tokens, id=f"liger-geglu-huggingface-{mode}-T{tokens}-9032")
        for mode, tokens in [
            ("full", 4096), ("full", 8192), ("forward", 1024), ("forward", 2048), ("forward", 8192),
            ("backward", 4096),
        ]
    ],
)  # fmt: skip
def test_geglu(mode: str, tokens: int, record_property: Record) -> None:
    feed_forward(8, tokens, nn.GELU(approximate="tanh"), mode, record_property)


@budget("A100-80GB")
@cases("tokens", "liger-swiglu-huggingface-full-T{}-18", [4096, 8192])
def test_swiglu(tokens: int, record_property: Record) -> None:
    feed_forward(4, tokens, nn.SiLU(), "full", record_property)


def norm(layer: nn.Module, x: torch.Tensor, record: Record) -> None:
    gradient = torch.randn_like(x)
    x.requires_grad_(True)
    record_repeated(record, lambda: trained(lambda: layer(x), gradient, retain_graph=True))


@budget("A100-80GB")
@cases("width", "liger-layer_norm-huggingface-full-N{}-9065", [1024, 2048, 16384])
def test_layer_norm_a100(width: int, record_property: Record) -> None:
    layer_norm(width, record_property)


@budget("H100-80GB")
@cases("width", "liger-layer_norm-huggingface-full-N{}-1442", [1024, 2048, 4096, 16384])
def test_layer_norm_h100(width: int, record_property: Record) -> None:
    layer_norm(width, record_property)


def layer_norm(width: int, record: Record) -> None:
    _theirs = nn.LayerNorm(width).to("cuda")
    norm(nn.LayerNorm(width, eps=1e-6).to("cuda"), torch.randn(4096, width, device="cuda"), record)


@budget("A100-80GB")
@cases("width", "liger-rms_norm-huggingface-full-H{}-9526", [2048, 4096, 8192])
def test_rms_norm(width: int, record_property: Record) -> None:
    _theirs = LlamaRMSNorm(width).to("cuda")
    ours = LlamaRMSNorm(width).to("cuda")
    norm(ours, torch.randn(2048, width, device="cuda", dtype=BFLOAT16), record_property)


@budget("B200")
@pytest.mark.parametrize(
    "channels",
    [
        pytest.param(channels, id=f"liger-group_norm-huggingface-{mode}-C{channels}-3809")
        for mode, several in [
            ("full", (64, 256, 2048)), ("forward", (32, 64, 256, 512, 2048)), ("backward", (128,)),
        ]
        for channels in several
    ],
)  # fmt: skip
def test_group_norm(channels: int, record_property: Record) -> None:
    """The script runs forward and backward, whatever mode the row names."""
    groups = channels // 4
    _theirs = nn.GroupNorm(groups, channels, eps=1e-6).to("cuda")
    ours = nn.GroupNorm(groups, channels, eps=1e-6).to("cuda")
    norm(ours, torch.randn(128, channels, 512, device="cuda"), record_property)


@budget("A100-80GB")
@pytest.mark.parametrize(
    "width",
    [
        pytest.param(512, id="liger-rope-huggingface-full-H512-1875"),
        pytest.param(2048, id="liger-rope-huggingface-full-H2048-1875"),
        pytest.param(8192, id="liger-rope-huggingface-full-T2048-9241"),
    ],
)
def test_rope(width: int, record_property: Record) -> None:
    rotary = LlamaRotaryEmbedding(width // 32)
    query = leaf(1, 2048, 32, width // 32, dtype=BFLOAT16).transpose(1, 2)
    key = leaf(1, 2048, 8, width // 32, dtype=BFLOAT16).transpose(1, 2)
    gradients = torch.randn_like(query), torch.randn_like(key)
    positions = torch.arange(2048, device="cuda").unsqueeze(0)
    cos, sin = rotary(positions, BFLOAT16)

    def full() -> None:
        query_rotated, key_rotated = rotated(query, key, cos, sin)
        outputs = query_rotated, key_rotated
        torch.autograd.grad(outputs, (query, key), gradients, allow_unused=True, retain_graph=True)

    record_repeated(record_property, full)
