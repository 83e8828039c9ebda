"""Small models whose sharded sizes are plain arithmetic."""

import torch
from torch import nn

from pytest_membudget.devices.torch_parts import torch_release

MIB = 2**20
#: cuBLAS's workspace for a handle on an A100 (CUDABlas.cpp), which stays until torch 2.15
WORKSPACE = 8_519_680 if torch_release() < (2, 15) else 0
WIDTH = 1024
LAYERS = 4
#: fp32, 1,024 x 1,024
LAYER = 4 * MIB


def layers(count=LAYERS, width=WIDTH):
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))


def train(model, optimizer=None, steps=2, rows=16, width=WIDTH):
    optimizer = optimizer or torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(rows, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
