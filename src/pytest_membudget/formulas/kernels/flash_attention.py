"""What FlashAttention-2's kernels hold in addition to operands and results.

Read in aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (pytorch/pytorch at 03b7c19d) and
cuda/attention_backward.cu (at 00afd8f2), and in the kernels of the CUDA wheels 2.11 and 2.15.
"""

from __future__ import annotations

import math
from typing import Final

from ...hardware.gpus import Gpu
from ...units import round_up
from .attention_call import AttentionCall

_FP32: Final = 4


def forward_bytes(call: AttentionCall, gpu: Gpu) -> list[int]:
    """Split over the keys, with an fp32 sum and logsumexp a split, where that fills the card better."""
    if call.has_dropout:
        return []
    queries, heads = call.queries, call.heads
    if queries == 1 and heads > call.key_heads:
        queries, heads = heads // call.key_heads, call.key_heads
    splits = _key_splits(call.batch * heads * math.ceil(queries / 64), call.keys, call.width, gpu)
    if splits == 1:
        return []
    rows = _FP32 * splits * call.batch * heads * queries
    return [rows, rows * _width(call.width)]


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


def backward_bytes(call: AttentionCall) -> list[int]:
    """The rows' softmax sums, the query's gradient in fp32, and gradients by query head where heads share."""
    rows = _FP32 * call.matrices * round_up(call.queries, 128)
    sizes = [rows, rows * _width(call.width)]
    if call.heads != call.key_heads:
        sizes += 2 * [call.element_bytes * call.matrices * call.keys * call.width]
    return sizes


def _width(width: int) -> int:
    return round_up(width, 32 if width <= 128 else 64)
