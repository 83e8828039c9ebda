"""The workspace of cuDNN's fused attention: what PyTorch allocates for the time of a call.

PyTorch takes the plan that cuDNN's heuristics put first (aten/src/ATen/native/cudnn/MHA.cpp of
pytorch/pytorch). Its workspace is the sum of two: what cudnn-frontend puts there itself, a formula in
include/cudnn_frontend/node/scaled_dot_product_flash_attention.h (NVIDIA/cudnn-frontend, 1.18 to 1.28 alike),
and what the engine asks for, which is in no source. The engine's rules below were read off plans that cuDNN
9.19.0, 9.20.0, 9.24.1, 9.26.0 and 9.26.1 made of such graphs (frontend 1.23 and 1.28) for described devices
of capability 8.0 to 12.0, and were held against more than 1,000 others, drawn at random: both halves, with
and without mask, dropout, causality and shared heads, contiguous or with heads inside the sequence. No plan
was executed: the figures have not been seen on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from ..gpus import Gpu
from .attention import platform_of

_FP32: Final = 4
_HALF: Final = 2
#: Parts of an engine's workspace start at multiples of this; an engine with any has one more, empty.
_STEP: Final = 128
#: Tile scheduler of the engines for Hopper, whatever the shape.
_HOPPER_BYTES: Final = 256
#: Keys from which on the engine for Blackwell splits them over idle multiprocessors.
_SPLIT_FROM: Final = 4096
#: From here on Blackwell's own engine takes up to 128 queries without a mask too.
_FEW_QUERIES_SINCE: Final = 92600


@dataclass(frozen=True, slots=True)
class _Call:
    """One call as the engines see it; widths are of a head, ``key_heads`` and ``value_heads`` may share."""

    batch: int
    heads: int
    key_heads: int
    value_heads: int
    queries: int
    keys: int
    width: int
    value_width: int
    has_mask: bool
    has_dropout: bool

    @property
    def rows(self) -> int:
        return self.batch * self.heads * self.queries

    @property
    def dropout_bytes(self) -> int:
        """A bit for each score, in tiles of 128 x 128."""
        return self.batch * self.heads * _up(self.queries, 128) * _up(self.keys, 128) // 8


def forward_workspace(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(query, key, value, mask, whether to train, dropout, ...): what is known, beside the bound."""
    call = _call_of(*args[:3], mask=args[3], dropout_p=_at(args, 5))
    if not call.rows * call.keys or call.queries == 1:
        return []
    if gpu.capability[0] == 9:
        return [_HOPPER_BYTES]
    if gpu.capability[0] == 10 and call.has_dropout and args[4]:
        return [_engine_bytes(call.dropout_bytes)]
    return []


def forward_bound(args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, gpu: Gpu) -> int:
    """What the forward may take beyond :func:`forward_workspace`; 0 where that is exact.

    One query, and on Blackwell few queries beside many keys: the keys may be split, with an fp32 result and
    two numbers a row for each split; how many is the heuristics' own. On Blackwell dropout without training
    draws its mask in the workspace or not.
    """
    call = _call_of(*args[:3], mask=args[3], dropout_p=_at(args, 5))
    if not call.rows * call.keys:
        return 0
    parts: list[int] = []
    if gpu.capability[0] == 10 and call.has_dropout and (not args[4] or call.queries == 1):
        parts.append(call.dropout_bytes)
    splits = _most_splits(call, gpu)
    if splits > 1:
        numbers = _FP32 * splits * call.rows
        parts += [numbers * call.value_width, numbers, numbers]
    if gpu.capability[0] == 9 and call.queries == 1 and call.has_dropout:
        parts.append(_HOPPER_BYTES)
    return _engine_bytes(*parts)


def _most_splits(call: _Call, gpu: Gpu) -> int:
    """In no plan had a split fewer than 128 keys, or several queries more tiles than multiprocessors."""
    by_keys = math.ceil(call.keys / 128)
    if call.queries == 1:
        return by_keys
    if gpu.capability[0] != 10 or call.keys < _SPLIT_FROM:
        return 1
    tiles = call.batch * call.heads * math.ceil(call.queries / 256)
    return min(by_keys, gpu.multiprocessor_count // tiles)


def backward_workspace(args: Sequence[Any], gpu: Gpu) -> list[int]:
    """(gradient, query, key, value, ..., mask at 8, ..., dropout at 13, ...): exact.

    The frontend's are the rows' sums and the query's gradient in fp32. Where heads share keys or values,
    their gradients lie there once a query head.
    """
    grad_out = args[0]
    call = _call_of(*args[1:4], mask=args[8], dropout_p=_at(args, 13))
    if not call.rows * call.keys:
        return []
    copied = 0 if grad_out.stride(-1) == 1 else grad_out.numel() * grad_out.element_size()
    if gpu.capability[0] == 10 and call.width == call.value_width == 256:
        workspace_bytes = _wide_backward_bytes(call)
    else:
        workspace_bytes = _FP32 * call.rows * (call.width + 1) + _backward_engine_bytes(call, gpu)
    return [workspace_bytes, copied]


def _backward_engine_bytes(call: _Call, gpu: Gpu) -> int:
    parts = [size * _HALF for size in _shared_gradients(call)]
    if gpu.capability[0] == 9:
        return _HOPPER_BYTES + sum(_up(size, _STEP) for size in parts)
    if gpu.capability[0] == 10 and call.has_dropout:
        parts.append(call.dropout_bytes)
    if _runs_as_on_ampere(call, gpu.capability):
        parts.append(_FP32 * call.batch * call.heads * _up(call.queries, 8) * call.width)
    return _engine_bytes(*parts)


def _wide_backward_bytes(call: _Call) -> int:
    """Heads of 256 on Blackwell have a deterministic backward: no fp32 sums of the query's gradient.

    ``is_d256_on_blackwell`` in the frontend since 1.24. The shared gradients lie there in fp32 as well.
    """
    shared = (size * (_HALF + _FP32) for size in _shared_gradients(call))
    return _FP32 * call.rows + _engine_bytes(*shared)


def _runs_as_on_ampere(call: _Call, capability: tuple[int, int]) -> bool:
    """Whether the engine has fp32 sums of its own: that for all cards, which Blackwell takes where small."""
    if capability[0] != 10:
        return True
    if call.has_dropout or max(call.width, call.value_width) > 128:
        return False
    older = platform_of(capability).cudnn_version < _FEW_QUERIES_SINCE or capability != (10, 0)
    return call.keys <= 128 or (call.queries <= 128 and (call.has_mask or older))


def _shared_gradients(call: _Call) -> list[int]:
    """Numbers in the gradients of keys and values once a query head, where heads share them."""
    matrices = call.batch * call.heads * call.keys
    return [
        matrices * width
        for heads, width in ((call.key_heads, call.width), (call.value_heads, call.value_width))
        if heads != call.heads
    ]


def _engine_bytes(*parts: int) -> int:
    return sum(_up(size, _STEP) for size in parts) + _STEP if any(parts) else 0


def _call_of(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, mask: object, dropout_p: object
) -> _Call:
    batch, heads, queries, width = query.shape
    return _Call(
        batch=batch,
        heads=heads,
        key_heads=key.shape[1],
        value_heads=value.shape[1],
        queries=queries,
        keys=key.shape[2],
        width=width,
        value_width=value.shape[3],
        has_mask=mask is not None,
        has_dropout=bool(dropout_p),
    )


def _at(args: Sequence[Any], position: int) -> Any:
    """An argument; a default is not handed over to a dispatch mode."""
    return args[position] if len(args) > position else None


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
