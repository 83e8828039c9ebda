"""The workspace of cuDNN's fused attention: what PyTorch allocates for the time of a call.

PyTorch takes the plan that cuDNN's heuristics put first (aten/src/ATen/native/cudnn/MHA.cpp of
pytorch/pytorch). Its workspace is the sum of two: what cudnn-frontend puts there itself, a formula in
include/cudnn_frontend/node/scaled_dot_product_flash_attention.h (NVIDIA/cudnn-frontend, 1.18 to 1.28),
and what the engine requests, which is in no source. The engine's rules below were read off plans that cuDNN
9.19.0, 9.20.0, 9.24.1, 9.26.0 and 9.26.1 made of such graphs (frontend 1.23 and 1.28) for described devices
of capability 8.0 to 12.0, and were held against more than 1,000 others, drawn at random: both halves, with
and without mask, dropout, causality and shared heads, contiguous or with heads inside the sequence. No plan
was executed: the figures have not been seen on a GPU.
"""

from __future__ import annotations

from typing import Final

from ...hardware.gpus import Gpu
from ...units import round_up
from .attention_call import AttentionCall

_FP32: Final = 4
#: Parts of an engine's workspace start at multiples of this; an engine with any has one more, empty.
_STEP: Final = 128
#: Tile scheduler of the engines for Hopper, whatever the shape.
_HOPPER_BYTES: Final = 256
#: From here on Blackwell's own engine takes up to 128 queries without a mask too.
_FEW_QUERIES_SINCE: Final = 92600


def forward_bytes(call: AttentionCall, gpu: Gpu) -> int:
    """Of a call that trains.

    Not modelled: one query, and on Blackwell few queries with many keys, whose keys the engine may split.
    """
    if not call.rows * call.keys or call.queries == 1:
        return 0
    if gpu.capability[0] == 9:
        return _HOPPER_BYTES
    if gpu.capability[0] == 10 and call.has_dropout:
        return _engine_bytes(_dropout_bytes(call))
    return 0


def backward_bytes(call: AttentionCall, gpu: Gpu, cudnn_version: int) -> int:
    """Exact; ``cudnn_version`` as 92000.

    The frontend's are the rows' sums and the query's gradient in fp32. Where heads share keys or values,
    their gradients lie there once a query head.
    """
    if not call.rows * call.keys:
        return 0
    if gpu.capability[0] == 10 and call.width == call.value_width == 256:
        return _wide_backward_bytes(call)
    return _FP32 * call.rows * (call.width + 1) + _backward_engine_bytes(call, gpu, cudnn_version)


def _backward_engine_bytes(call: AttentionCall, gpu: Gpu, cudnn_version: int) -> int:
    parts = [size * call.element_bytes for size in _shared_gradients(call)]
    if gpu.capability[0] == 9:
        return _HOPPER_BYTES + sum(round_up(size, _STEP) for size in parts)
    if gpu.capability[0] == 10 and call.has_dropout:
        parts.append(_dropout_bytes(call))
    if _runs_as_on_ampere(call, gpu.capability, cudnn_version):
        parts.append(_FP32 * call.matrices * round_up(call.queries, 8) * call.width)
    return _engine_bytes(*parts)


def _wide_backward_bytes(call: AttentionCall) -> int:
    """Heads of 256 on Blackwell have a deterministic backward: no fp32 sums of the query's gradient.

    ``is_d256_on_blackwell`` in the frontend since 1.24. The shared gradients lie there in fp32 as well.
    """
    shared = (size * (call.element_bytes + _FP32) for size in _shared_gradients(call))
    return _FP32 * call.rows + _engine_bytes(*shared)


def _runs_as_on_ampere(call: AttentionCall, capability: tuple[int, int], cudnn_version: int) -> bool:
    """Whether the engine for all cards runs, with fp32 sums: on Blackwell for small shapes only."""
    if capability[0] != 10:
        return True
    if call.has_dropout or max(call.width, call.value_width) > 128:
        return False
    older = cudnn_version < _FEW_QUERIES_SINCE or capability != (10, 0)
    return call.keys <= 128 or (call.queries <= 128 and (call.has_mask or older))


def _shared_gradients(call: AttentionCall) -> list[int]:
    """Numbers in the gradients of keys and values once a query head, where heads share them."""
    return [
        call.matrices * call.keys * width
        for heads, width in ((call.key_heads, call.width), (call.value_heads, call.value_width))
        if heads != call.heads
    ]


def _dropout_bytes(call: AttentionCall) -> int:
    """A bit for each score, in tiles of 128 x 128."""
    return call.matrices * round_up(call.queries, 128) * round_up(call.keys, 128) // 8


def _engine_bytes(*parts: int) -> int:
    return sum(round_up(size, _STEP) for size in parts) + _STEP if any(parts) else 0
