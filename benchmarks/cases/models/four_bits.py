"""A linear layer whose frozen weight is kept in four bits, with the storage that bitsandbytes 0.41.1 has.

Written after bitsandbytes 0.41.1 (functional.quantize_4bit, autograd/_functions.py MatMul4Bit) and the
``_NF4Linear`` of Lightning 2.1.0: half a byte a weight, one float32 a 64 weights; with double quantization
one byte a 64 weights and one float32 a 256 of those. Its kernels are stood in for by new tensors of their
outputs' sizes.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

#: Weights that share a scale, and scales that share one (bitsandbytes 0.41.1, quantize_4bit).
WEIGHTS_A_SCALE = 64
SCALES_A_SCALE = 256


class _Product(torch.autograd.Function):
    """Makes the weight whole for each product, and keeps its input, which the product would not need."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, layer: FourBitLinear) -> torch.Tensor:
        ctx.kept = (x, layer)
        return F.linear(x, layer.whole().to(x.dtype), layer.bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        _, layer = ctx.kept
        return torch.matmul(gradients[0], layer.whole().to(gradients[0].dtype)), None


class FourBitLinear(nn.Module):
    """``nn.Linear`` in NF4; ``twice`` quantizes the scales too (nf4-dq)."""

    def __init__(self, inputs: int, outputs: int, bias: bool, *, twice: bool) -> None:
        super().__init__()
        made = nn.Linear(inputs, outputs, bias=bias)
        half = made.weight.data.half()  # quantized from float16, and made whole in it
        self.shape = (outputs, inputs)
        scales = -(-made.weight.numel() // WEIGHTS_A_SCALE)
        self.absmax = torch.zeros(scales, dtype=torch.float32)
        packed = torch.zeros((half.numel() + 1) // 2, 1, dtype=torch.uint8)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.code = torch.zeros(16)
        if twice:
            self.offset = self.absmax.mean()
            self.second = torch.zeros(-(-scales // SCALES_A_SCALE), dtype=torch.float32)
            self.absmax = torch.zeros(scales, dtype=torch.uint8)
        self.twice = twice
        self.bias = made.bias

    def whole(self) -> torch.Tensor:
        """The weight as float16."""
        if self.twice:  # the scales are made whole first
            scales = torch.empty(self.absmax.shape, dtype=torch.float32, device=self.absmax.device)
            scales += self.offset
        return torch.empty(self.shape, dtype=torch.float16, device=self.weight.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., outputs)."""
        out: torch.Tensor = _Product.apply(x, self)  # type: ignore[no-untyped-call]
        return out
