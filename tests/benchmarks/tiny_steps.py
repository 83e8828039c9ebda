"""Steps that take seconds to trace: what the capture is tried on."""

import torch
from torch import nn

MIB = 2**20


def trained(width):
    """A linear layer and AdamW, two updates."""
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(64, width, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def held(mib):
    """One tensor."""
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def broken():
    """It fails."""
    raise RuntimeError("the step is wrong")
