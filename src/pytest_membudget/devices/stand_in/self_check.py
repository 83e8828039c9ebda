"""A small training step whose figures are known by hand, run before any figure is believed."""

from typing import Any

import torch
from torch import nn

from ...errors import UnsupportedTorch
from ...hardware.gpus import Gpu
from ...results.answer import Request
from ...units import MIB

#: wide enough for the optimizer's temporaries to outweigh a cuBLAS workspace
_WIDTH = 4096
#: more than three: without foreach, AdamW holds three temporaries of one parameter's size
_LAYERS = 4


def expected_components() -> dict[str, int]:
    """By hand: four fp32 layers of 4,096 x 4,096 elements (64 MiB each) and AdamW with foreach."""
    return {
        "parameters": _LAYERS * 64 * MIB,
        "gradients": _LAYERS * 64 * MIB,
        "optimizer_states": 2 * _LAYERS * 64 * MIB,
        "temporaries": _LAYERS * 64 * MIB,  # foreach's list of square roots
    }


def self_check(device: Any, gpu: Gpu) -> None:
    """Raise ``UnsupportedTorch`` if this torch does not give the figures of ``expected_components``.

    For a process that ends thereafter: the step leaves its marks on the device.
    """
    device.begin(Request("", "", gpu.name, limited=False, metric="allocated"))
    _step()
    found = device.end(metric="allocated", root="/").components
    expected = expected_components().items()
    wrong = [f"{name} {found[name]} instead of {size}" for name, size in expected if found[name] != size]
    if wrong:
        raise UnsupportedTorch(
            f"torch {torch.__version__} is not a torch that {device.name} was made for: a step whose "
            f"figures are known gave {', '.join(wrong)}. Install a torch that this release names as "
            "tested, or a newer pytest-membudget."
        )


def _step() -> None:
    layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH, bias=False, device="cuda") for _ in range(_LAYERS))
    optimizer = torch.optim.AdamW(layers.parameters())
    for _ in range(2):
        hidden = torch.randn(1, _WIDTH, device="cuda")
        for layer in layers:
            hidden = layer(hidden)
        hidden.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
