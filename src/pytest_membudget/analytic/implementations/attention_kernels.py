"""What the kernels of ``scaled_dot_product_attention`` keep for backward and take for themselves, by shape.

Letters as in the sources: B batch, H query heads, M queries, N keys, D and Dv widths of a head. Read in
aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (pytorch/pytorch at 03b7c19d),
cuda/attention_backward.cu (at 00afd8f2), cuda/mem_eff_attention/kernel_forward.h and kernel_backward.h, and
cudnn-frontend's include/cudnn_frontend/node/scaled_dot_product_flash_attention.h (1.18 to 1.28).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...gpus import Gpu

_FP32: Final = 4
#: Tile scheduler of cuDNN's engines for Hopper; parts of an engine's workspace start at multiples of 128.
_HOPPER_BYTES: Final = 256
_STEP: Final = 128


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as a kernel sees it."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    element_bytes: int
    has_dropout: bool = False
    has_mask: bool = False


def flash_forward_bytes(call: Call, gpu: Gpu) -> int:
    """Split over the keys, with an fp32 sum and logsumexp a split, where that fills the card better."""
    if call.has_dropout:
        return 0
    queries, heads = call.queries, call.heads
    if queries == 1 and heads > call.kv_heads:
        queries, heads = heads // call.kv_heads, call.kv_heads
    splits = _key_splits(call.batch * heads * math.ceil(queries / 64), call.keys, call.width, gpu)
    if splits == 1:
        return 0
    rows = _FP32 * splits * call.batch * heads * queries
    return rows + rows * _flash_width(call.width)


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


def flash_backward_bytes(call: Call, gpu: Gpu) -> int:
    """The rows' softmax sums, the query gradient in fp32, and gradients by query head where heads share."""
    rows = _FP32 * call.batch * call.heads * _up(call.queries, 128)
    shared = 2 * call.element_bytes * call.batch * call.keys * call.heads * call.width
    return rows + rows * _flash_width(call.width) + (shared if call.heads != call.kv_heads else 0)


def efficient_forward_bytes(call: Call, gpu: Gpu) -> int:
    """Wide heads in half precision are summed in fp32."""
    if call.element_bytes == _FP32 or max(call.width, call.value_width) <= 128:
        return 0
    return _FP32 * call.batch * call.queries * call.heads * call.value_width


def efficient_backward_bytes(call: Call, gpu: Gpu) -> int:
    """The rows' sums (a product first, in fp32), and the kernel's own workspace."""
    rows = _FP32 * call.batch * call.heads * call.queries
    workspace = _efficient_workspace_bytes(call, gpu)
    if call.element_bytes == _FP32:
        return rows + max(rows * call.value_width, workspace)
    return rows + workspace


def _efficient_workspace_bytes(call: Call, gpu: Gpu) -> int:
    """``workspace_size``: fp32 sums of gradients, by tiles of I queries and J keys, S splits of the keys."""
    half = call.element_bytes < _FP32
    tile_queries, tile_keys, widest = _tiles(half, max(call.width, call.value_width), gpu)
    in_registers = half and widest <= tile_queries
    matrices = call.batch * call.heads
    sums = 0
    if not in_registers:
        splits = _backward_splits(matrices, call.keys, tile_keys, gpu)
        widths = _up(call.width, tile_queries) + _up(call.value_width, tile_queries)
        sums = splits * tile_keys * widths
    tiles = math.ceil(call.queries / tile_queries) * math.ceil(call.width / tile_keys)
    return _FP32 * matrices * _up(sums + tiles * (4 + tile_queries * tile_keys), 4)


def _tiles(half: bool, width: int, gpu: Gpu) -> tuple[int, int, int]:
    """Queries and keys a tile, and the widest head of the kernel."""
    if gpu.capability < (8, 0) or width <= 64:
        return 64, 64, 64 if width <= 64 else 128 if width <= 128 else 2**16
    if not half:
        return 128, 64, 128 if width <= 128 else 2**16
    return (128, 128, 128) if width <= 128 else (128, 64, 2**16)


def _backward_splits(matrices: int, keys: int, tile_keys: int, gpu: Gpu) -> int:
    if gpu.capability < (7, 0) or (matrices >= 256 and keys <= 2 * tile_keys):
        return 1
    return max(1, min(math.ceil(keys / tile_keys), 200 // matrices))


def cudnn_forward_bytes(call: Call, gpu: Gpu) -> int:
    """Of an engine for one query or more, with the heuristics' first plan."""
    if call.queries == 1:
        return 0
    if gpu.capability[0] == 9:
        return _HOPPER_BYTES
    if gpu.capability[0] == 10 and call.has_dropout:
        return _engine_bytes(_dropout_bytes(call))
    return 0


def cudnn_backward_bytes(call: Call, gpu: Gpu) -> int:
    """The rows' sums and the query's gradient in fp32; shared gradients once a query head."""
    rows = call.batch * call.heads * call.queries
    matrices = call.batch * call.heads * call.keys
    shared = 2 * [matrices * call.width * call.element_bytes] if call.heads != call.kv_heads else []
    if gpu.capability[0] == 10 and call.width == call.value_width == 256:
        wide = (size + size // call.element_bytes * _FP32 for size in shared)
        return _FP32 * rows + _engine_bytes(*wide)
    frontend = _FP32 * rows * (call.width + 1)
    if gpu.capability[0] == 9:
        return frontend + _HOPPER_BYTES + sum(_up(size, _STEP) for size in shared)
    parts = list(shared)
    if gpu.capability[0] == 10:
        parts += [_dropout_bytes(call)] if call.has_dropout else []
        if not _runs_as_on_ampere(call):
            return frontend + _engine_bytes(*parts)
    parts.append(_FP32 * call.batch * call.heads * _up(call.queries, 8) * call.width)
    return frontend + _engine_bytes(*parts)


def _runs_as_on_ampere(call: Call) -> bool:
    """Blackwell takes the engine for all cards where keys are few (queries too, before cuDNN 9.26)."""
    if call.has_dropout or max(call.width, call.value_width) > 128:
        return False
    return min(call.keys, call.queries) <= 128


def _dropout_bytes(call: Call) -> int:
    """A bit for each score, in tiles of 128 x 128."""
    return call.batch * call.heads * _up(call.queries, 128) * _up(call.keys, 128) // 8


def _engine_bytes(*parts: int) -> int:
    return sum(_up(size, _STEP) for size in parts) + _STEP if any(parts) else 0


def _flash_width(width: int) -> int:
    return _up(width, 32 if width <= 128 else 64)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
