"""A Llama's layers one by one, in plain operators.

What Liger-Kernel's benchmarks hold their kernels against, re-created: ``LlamaMLP``, ``LlamaRotaryEmbedding``
and ``apply_rotary_pos_emb`` of transformers 4.44, ``LlamaRMSNorm`` of linkedin/Liger-Kernel v0.3.0,
benchmark/scripts/benchmark_rms_norm.py.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn


class GatedMLP(nn.Module):
    """A Llama's feed-forward layer: ``down(act(gate(x)) * up(x))``."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (
            nn.Linear(width, hidden, bias=False),
            nn.Linear(width, hidden, bias=False),
        )
        self.down_proj = nn.Linear(hidden, width, bias=False)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[..., width]``."""
        return cast(torch.Tensor, self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x)))


class LlamaRMSNorm(nn.Module):
    """In fp32, the weight in fp32 on an input that has been converted back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is ``[rows, width]``."""
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x.to(dtype)


class LlamaRotaryEmbedding(nn.Module):
    """Cosines and sines ``[1, length, width]`` of positions.

    The product is cuBLAS's, as ``@`` was until torch 2.12; from 2.13 on that is a kernel of Triton's, which
    takes no workspace (torch/_native/ops/bmm_outer_product), and only ``out=`` goes to cuBLAS.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        frequencies = 1.0 / (10_000 ** (torch.arange(0, width, 2, device="cuda").float() / width))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.frequencies: torch.Tensor

    def forward(self, positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """``positions`` is ``[1, length]``."""
        columns = self.frequencies[None, :, None].expand(1, -1, 1)
        rows = positions[:, None, :].float()
        angles = torch.bmm(columns, rows, out=rows.new_empty(1, columns.shape[1], rows.shape[2]))
        angles = angles.transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotated(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary positions as transformers applies them to ``[batch, heads, length, width]``."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    query_rotated = (query * cos) + (_half_turned(query) * sin)
    key_rotated = (key * cos) + (_half_turned(key) * sin)
    return query_rotated, key_rotated


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    first = x[..., : x.shape[-1] // 2]
    second = x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)
