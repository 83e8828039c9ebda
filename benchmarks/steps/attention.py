"""Attention by each of PyTorch's kernels: types, masks, head sizes, long sequences."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .training import TYPES, UPDATES, backward

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def attended(
    batch: int,
    heads: int,
    length: int,
    width: int,
    dtype: str,
    kernel: str = "",
    kv_heads: int = 0,
    mask: bool = False,
    dropout: float = 0.0,
) -> None:
    """Attention forward and backward, by ``kernel`` or by the one that PyTorch picks."""
    kv_heads = kv_heads or heads
    bias = torch.zeros(batch, 1, length, length, device="cuda", dtype=TYPES[dtype]) if mask else None
    query, key, value = (
        torch.randn(batch, count, length, width, device="cuda", dtype=TYPES[dtype], requires_grad=True)
        for count in (heads, kv_heads, kv_heads)
    )
    for _ in range(UPDATES):
        with sdpa_kernel(_KERNELS[kernel]) if kernel else contextlib.nullcontext():
            output = F.scaled_dot_product_attention(
                query, key, value, bias, dropout, is_causal=not mask, enable_gqa=kv_heads != heads
            )
            backward(output.sum())
        query.grad = key.grad = value.grad = None


def multi_head(batch: int, length: int) -> None:
    """``nn.MultiheadAttention`` that returns its weights, with padding."""
    layer = torch.nn.MultiheadAttention(512, 8, batch_first=True, device="cuda")
    x = torch.randn(batch, length, 512, device="cuda")
    padding = torch.zeros(batch, length, dtype=torch.bool, device="cuda")
    for _ in range(UPDATES):
        output, weights = layer(x, x, x, key_padding_mask=padding)
        backward(output.sum() + weights.sum())
        layer.zero_grad()
