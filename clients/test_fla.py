"""flash-linear-attention: layers of Triton kernels, forward and backward."""

import pytest
import torch
from fla.layers import GatedDeltaNet, GatedLinearAttention


def step(layer):
    layer.to("cuda", torch.bfloat16)
    rows = torch.randn(2, 1024, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    result, *_ = layer(rows)
    result.sum().backward()


@pytest.mark.mem_budget(gib=0.75)
def test_gated_linear_attention():
    step(GatedLinearAttention(hidden_size=1024, num_heads=4, mode="chunk"))


@pytest.mark.mem_budget(gib=0.75)
def test_gated_delta_net():
    step(GatedDeltaNet(hidden_size=1024, num_heads=4))
