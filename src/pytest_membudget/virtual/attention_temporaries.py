"""Device memory that attention kernels take for themselves and give back before they return.

Letters as in the sources: B batch, H query heads, M queries, N keys, D and Dv head dims. Read in
aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (pytorch/pytorch at 03b7c19d),
cuda/attention_backward.cu (at 00afd8f2), cuda/mem_eff_attention/kernel_forward.h and kernel_backward.h, and
in the kernels of the CUDA wheels 2.11 and 2.15. cuDNN's are in ``cudnn_attention``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..gpus import Gpu
from .cudnn_attention import backward_workspace, forward_workspace

aten = torch.ops.aten
_FP32 = 4


def attention_temporaries(func: Any, args: Sequence[Any], gpu: Gpu) -> list[int]:
    """Sizes in bytes of what the kernel of ``func`` holds beside its inputs and outputs; empty for others."""
    rule = _RULES.get(func)
    return [size for size in rule(args, gpu) if size] if rule is not None else []


def flash_forward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """Split over the keys, with an fp32 sum and logsumexp a split, where that fills the card better."""
    query, key = args[:2]
    batch, heads, queries, width = query.shape
    if len(args) > 3 and args[3]:  # with dropout; a default is not handed over
        return []
    if queries == 1 and heads > key.shape[1]:
        queries, heads = heads // key.shape[1], key.shape[1]
    splits = _key_splits(batch * heads * math.ceil(queries / 64), key.shape[2], width, gpu)
    if splits == 1:
        return []
    rows = _FP32 * splits * batch * heads * queries
    return [rows, rows * _flash_width(width)]


def _key_splits(blocks: int, keys: int, width: int, gpu: Gpu) -> int:
    """``num_splits_heuristic`` with two blocks a multiprocessor."""
    slots = 2 * gpu.multiprocessor_count
    if blocks >= 0.8 * slots:
        return 1
    key_blocks = math.ceil(keys / (256 if width <= 64 else 128 if width <= 128 else 64))

    def eligible(splits: int) -> bool:
        return splits == 1 or math.ceil(key_blocks / splits) != math.ceil(key_blocks / (splits - 1))

    def efficiency(splits: int) -> float:
        waves = blocks * splits / slots
        return waves / math.ceil(waves)

    candidates = [count for count in range(1, min(128, slots, key_blocks) + 1) if eligible(count)]
    best = max(efficiency(count) for count in candidates)
    return next(count for count in candidates if efficiency(count) >= 0.85 * best)


def flash_backward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """The rows' softmax sums, the query gradient in fp32, gradients by query head, and contiguous copies."""
    grad_out, query, key, _, out = args[:5]
    batch, heads, queries, width = query.shape
    rows = batch * heads * _up(queries, 128)
    accumulators = math.ceil(gpu.multiprocessor_count / (batch * heads)) if _deterministic() else 1
    sizes = [_FP32 * rows, _FP32 * rows * _flash_width(width) * accumulators]
    if heads != key.shape[1]:
        sizes += 2 * [query.element_size() * batch * key.shape[2] * heads * width]
    return sizes + [_copy_bytes(tensor) for tensor in (grad_out, out)]


def efficient_forward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """Wide heads in half precision are summed in fp32."""
    query, value = args[0], args[2]
    batch, heads, queries, width = query.shape
    value_width = value.shape[3]
    if query.element_size() == _FP32 or max(width, value_width) <= 128:
        return []
    return [_FP32 * batch * queries * heads * value_width]


def efficient_backward(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """The rows' sums (a product first, in fp32), and the kernel's own workspace."""
    grad_out, query, key, value = args[:4]
    batch, heads, queries, _ = query.shape
    rows = _FP32 * batch * heads * queries
    sizes = [_copy_bytes(grad_out), rows]
    if query.element_size() == _FP32:
        product = rows * value.shape[3]
        return [*sizes, max(product, efficient_workspace_bytes(query, key, value, gpu))]
    return [*sizes, efficient_workspace_bytes(query, key, value, gpu)]


def efficient_workspace_bytes(query: Any, key: Any, value: Any, gpu: Gpu) -> int:
    """``workspace_size``: fp32 sums of the gradients, by tiles of I queries and J keys, S splits of keys."""
    batch, heads, queries, width = query.shape
    keys, value_width = key.shape[2], value.shape[3]
    half = query.element_size() < _FP32
    tile_queries, tile_keys, widest = _tiles(half, max(width, value_width), gpu)
    in_registers = half and widest <= tile_queries
    splits = _backward_splits(batch * heads, keys, tile_keys, in_registers, gpu)
    sums = 0
    if not in_registers:
        sums = splits * tile_keys * (_up(width, tile_queries) + _up(value_width, tile_queries))
    per_tile = 4 + tile_queries * tile_keys
    query_sums = math.ceil(queries / tile_queries) * math.ceil(width / tile_keys) * per_tile
    workspace_bytes: int = _FP32 * batch * heads * _up(sums + query_sums, 4)
    return workspace_bytes


def _tiles(half: bool, width: int, gpu: Gpu) -> tuple[int, int, int]:
    """Queries and keys a tile, and the widest head of the kernel, for capability 8.0 and up."""
    if gpu.capability < (8, 0) or width <= 64:
        return 64, 64, 64 if width <= 64 else 128 if width <= 128 else 2**16
    if not half:
        return 128, 64, 128 if width <= 128 else 2**16
    if width <= 128:
        return 128, 128, 128
    return 128, 64, 2**16


def _backward_splits(matrices: int, keys: int, tile_keys: int, in_registers: bool, gpu: Gpu) -> int:
    if _deterministic() or gpu.capability < (7, 0):
        return 1
    if matrices >= 256 and keys <= 2 * tile_keys:
        return 1
    splits = math.ceil(keys / tile_keys)
    return splits if in_registers else max(1, min(splits, 200 // matrices))


def safe_softmax(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """One operator for fakes; on CUDA a mask of the scores, of the rows, and a 0-dim zero."""
    scores = args[0]
    return [scores.numel(), scores.numel() // max(1, scores.shape[-1]), scores.element_size()]


def _flash_width(width: int) -> int:
    return _up(width, 32 if width <= 128 else 64)


def _copy_bytes(tensor: torch.Tensor) -> int:
    """A contiguous copy in the kernel's order (batch, sequence, heads, width), where it is not so already."""
    return 0 if tensor.transpose(1, 2).is_contiguous() else _bytes(tensor)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _up(size: int, step: int) -> int:
    return math.ceil(size / step) * step


def _deterministic() -> bool:
    return torch.are_deterministic_algorithms_enabled()


_RULES: dict[Any, Callable[[Sequence[Any], Gpu], list[int]]] = {
    aten._scaled_dot_product_flash_attention.default: flash_forward,
    aten._scaled_dot_product_flash_attention_backward.default: flash_backward,
    aten._scaled_dot_product_efficient_attention.default: efficient_forward,
    aten._scaled_dot_product_efficient_attention_backward.default: efficient_backward,
    aten._scaled_dot_product_cudnn_attention.default: forward_workspace,
    aten._scaled_dot_product_cudnn_attention_backward.default: backward_workspace,
    aten._safe_softmax.default: safe_softmax,
}

ATTENTION_KERNELS = frozenset(_RULES)


def missing_on_cuda(func: Any, args: Sequence[Any]) -> tuple[int, ...]:
    """Which of ``func``'s outputs lie on the device for fakes alone.

    The efficient kernel's seed and offset are host tensors; cuDNN makes a logsumexp for backward only.
    """
    if func is aten._scaled_dot_product_efficient_attention.default:
        return (2, 3)
    if func is aten._scaled_dot_product_cudnn_attention.default and not args[4]:
        return (1,)
    return ()
