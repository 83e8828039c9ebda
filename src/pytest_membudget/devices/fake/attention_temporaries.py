"""Device memory that attention kernels take for themselves and give back before they return.

The rules, with their sources, are in ``kernel_memory``; here are the operators, and the copies that kernels
make of operands in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...hardware.gpus import Gpu
from ...kernels import efficient_attention, flash_attention
from .attention_calls import attention_call, cudnn_backward, cudnn_forward
from .private import torch_release

aten = torch.ops.aten


def attention_temporaries(func: Any, args: Sequence[Any], gpu: Gpu) -> list[int]:
    """Sizes in bytes of what ``func``'s kernel holds besides inputs and outputs; empty for others."""
    rule = _RULES.get(func)
    return [size for size in rule(args, gpu) if size] if rule is not None else []


def flash_forward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(query, key, value, dropout_p, ...)"""
    dropout_p = args[3] if len(args) > 3 else 0  # a default is not handed over
    return flash_attention.forward_bytes(attention_call(*args[:3], dropout_p=dropout_p), gpu)


def flash_backward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(gradient, query, key, value, out, ...): and contiguous copies."""
    grad_out, query, key, value, out = args[:5]
    sizes = flash_attention.backward_bytes(attention_call(query, key, value), gpu)
    return sizes + [_copy_bytes(tensor) for tensor in (grad_out, out)]


def efficient_forward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(query, key, value, ...)"""
    return efficient_attention.forward_bytes(attention_call(*args[:3]), gpu)


def efficient_backward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(gradient, query, key, value, ...): and a contiguous copy."""
    return [_copy_bytes(args[0]), *efficient_attention.backward_bytes(attention_call(*args[1:4]), gpu)]


def safe_softmax(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """One operator for fakes; on CUDA a mask of the scores, of the rows, and a 0-dim zero."""
    scores = args[0]
    return [scores.numel(), scores.numel() // max(1, scores.shape[-1]), scores.element_size()]


def _copy_bytes(tensor: torch.Tensor) -> int:
    """A contiguous copy in the kernel's order (batch, sequence, heads, width), where it is not so already."""
    return 0 if tensor.transpose(1, 2).is_contiguous() else _bytes(tensor)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


_RULES: dict[Any, Callable[[Sequence[Any], Gpu], list[int]]] = {
    aten._scaled_dot_product_flash_attention.default: flash_forward,
    aten._scaled_dot_product_flash_attention_backward.default: flash_backward,
    aten._scaled_dot_product_efficient_attention.default: efficient_forward,
    aten._scaled_dot_product_efficient_attention_backward.default: efficient_backward,
    aten._scaled_dot_product_cudnn_attention.default: cudnn_forward,
    aten._scaled_dot_product_cudnn_attention_backward.default: cudnn_backward,
    aten._safe_softmax.default: safe_softmax,
}

ATTENTION_KERNELS = frozenset(_RULES)


def missing_on_cuda(func: Any, args: Sequence[Any]) -> tuple[int, ...]:
    """Which of ``func``'s outputs lie on the device for fakes alone.

    The efficient kernel's seed and offset are host tensors, in 2.15 with dropout alone (seen in its wheel);
    cuDNN makes a logsumexp for backward only.
    """
    if func is aten._scaled_dot_product_efficient_attention.default:
        dropout_p = args[5] if len(args) > 5 else 0.0  # a default is not handed over
        return (2, 3) if dropout_p or torch_release() < (2, 15) else ()
    if func is aten._scaled_dot_product_cudnn_attention.default and not args[4]:
        return (1,)
    return ()
