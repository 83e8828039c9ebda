"""Attention's operators as the rules of ``kernel_memory`` see them: sizes, read off the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...hardware.gpus import Gpu
from ...kernels import cudnn_attention
from ...kernels.attention_call import AttentionCall
from .attention import platform_of


def attention_call(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, mask: object = None, dropout_p: object = 0
) -> AttentionCall:
    """Operands are [batch, heads, length, width]."""
    batch, heads, queries, width = query.shape
    return AttentionCall(
        batch=batch,
        heads=heads,
        key_heads=key.shape[1],
        value_heads=value.shape[1],
        queries=queries,
        keys=key.shape[2],
        width=width,
        value_width=value.shape[3],
        element_bytes=query.element_size(),
        has_mask=mask is not None,
        has_dropout=bool(dropout_p),
        is_deterministic=torch.are_deterministic_algorithms_enabled(),
    )


def cudnn_forward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(query, key, value, mask, whether to train, dropout, ...): what is known, in addition to the bound."""
    return [cudnn_attention.forward_bytes(_cudnn_call(args), gpu, bool(args[4]))]


def cudnn_forward_bound(args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """What the forward may take beyond :func:`cudnn_forward`."""
    return cudnn_attention.forward_bound(_cudnn_call(args), gpu, bool(args[4]))


def cudnn_backward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(gradient, query, key, value, ..., mask at 8, ..., dropout at 13, ...): a strided one is copied."""
    grad_out = args[0]
    call = attention_call(*args[1:4], mask=args[8], dropout_p=_at(args, 13))
    workspace_bytes = cudnn_attention.backward_bytes(call, gpu, platform_of(gpu.capability).cudnn_version)
    copied = 0 if grad_out.stride(-1) == 1 else grad_out.numel() * grad_out.element_size()
    return [workspace_bytes, copied] if workspace_bytes else []


def _cudnn_call(args: Sequence[Any]) -> AttentionCall:
    return attention_call(*args[:3], mask=args[3], dropout_p=_at(args, 5))


def _at(args: Sequence[Any], position: int) -> Any:
    """An argument; a default is not handed over to a dispatch mode."""
    return args[position] if len(args) > position else None
