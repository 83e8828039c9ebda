"""What the memory-efficient attention kernels (CUTLASS) hold in addition to operands and results.

Read in aten/src/ATen/native/transformers/cuda/attention_backward.cu (pytorch/pytorch at 00afd8f2) and
cuda/mem_eff_attention/kernel_forward.h and kernel_backward.h, and in the kernels of the CUDA wheels 2.11 and
2.15.
"""

from __future__ import annotations

import math
from typing import Final

from ...hardware.gpus import Gpu
from ...units import round_up
from .attention_call import AttentionCall

_FP32: Final = 4


def forward_bytes(call: AttentionCall, gpu: Gpu) -> list[int]:
    """Wide heads in half precision are summed in fp32."""
    if not call.is_half or max(call.width, call.value_width) <= 128:
        return []
    return [_FP32 * call.rows * call.value_width]


def backward_bytes(call: AttentionCall, gpu: Gpu) -> list[int]:
    """The rows' sums (a product first, in fp32), and the kernel's own workspace."""
    rows = _FP32 * call.rows
    workspace = workspace_bytes(call, gpu)
    return [rows, workspace if call.is_half else max(rows * call.value_width, workspace)]


def workspace_bytes(call: AttentionCall, gpu: Gpu) -> int:
    """``workspace_size``: fp32 sums of gradients, by tiles of I queries and J keys, S splits of the keys.

    Gradients in fp32 are summed where they lie: ``kNeedsAccumGradK`` is false for them.
    """
    tile_queries, tile_keys, widest = _tiles(call, gpu)
    sums = 0
    if call.is_half and widest > tile_queries:
        widths = round_up(call.width, tile_queries) + round_up(call.value_width, tile_queries)
        sums = _splits(call, tile_keys) * tile_keys * widths
    tiles = math.ceil(call.queries / tile_queries) * math.ceil(call.width / tile_keys)
    return _FP32 * call.matrices * round_up(sums + tiles * (4 + tile_queries * tile_keys), 4)


def _tiles(call: AttentionCall, gpu: Gpu) -> tuple[int, int, int]:
    """Queries and keys a tile, and the widest head of the kernel."""
    width = max(call.width, call.value_width)
    if gpu.capability < (8, 0) or width <= 64:
        return 64, 64, 64 if width <= 64 else 128 if width <= 128 else 2**16
    if not call.is_half:
        return 128, 64, 128 if width <= 128 else 2**16
    return (128, 128, 128) if width <= 128 else (128, 64, 2**16)


def _splits(call: AttentionCall, tile_keys: int) -> int:
    """Of the keys, by kernels that do not sum in registers."""
    if call.matrices >= 256 and call.keys <= 2 * tile_keys:
        return 1
    return max(1, min(math.ceil(call.keys / tile_keys), 200 // call.matrices))
