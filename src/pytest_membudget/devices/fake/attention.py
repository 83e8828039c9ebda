"""``scaled_dot_product_attention`` on the virtual device: the operators that a CUDA build would call.

A CPU build knows no CUDA kernel to choose and computes attention by formula, with score matrices that no
GPU ever holds. Here the kernel is chosen by CUDA's rules and its operator called, so that shapes, saved
tensors and backward are the kernel's own. The steps around it (padding, masks, heads) are those of
``aten/src/ATen/native/transformers/attention.cpp`` (pytorch/pytorch), 2.11 to 2.15.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .attention_choice import (
    CUDNN_OF_TORCH,
    MASK_EXCLUDES_CAUSAL_SINCE,
    UNBATCHED_IS_FUSED_SINCE,
    AttentionCall,
    AttentionSettings,
    Backend,
    Operand,
    Platform,
    choose_backend,
    priority_order,
)
from .refusals import refusal

aten = torch.ops.aten

#: Elements of a head and of a mask's row that a kernel loads at once (``pad_last_dim``, ``preprocess_mask``).
_ALIGNMENT = 8
#: From here on a call with an empty operand is answered without a kernel; before, kernels were asked.
_EMPTY_IS_ZERO_SINCE = (2, 12)
#: From here on a mask that requires grad is enough for EFFICIENT to keep what its backward needs.
_MASK_IS_TRAINED_SINCE = (2, 14)


@dataclass(frozen=True, slots=True)
class _Options:
    dropout_p: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    capability: tuple[int, int],
) -> torch.Tensor:
    """What ``torch.nn.functional.scaled_dot_product_attention`` computes on a GPU of ``capability``.

    Raises ``RuntimeError`` for what PyTorch refuses, ``NotAvailable`` for nested tensors.
    """
    platform = platform_of(capability)
    options = _Options(dropout_p, is_causal, scale, enable_gqa)
    _validate(query, key, value, attn_mask)
    if attn_mask is not None and is_causal and platform.torch_version >= MASK_EXCLUDES_CAUSAL_SINCE:
        raise RuntimeError("attn_mask must not be set when is_causal=True")
    if query.dim() != 3 or key.dim() != 3 or value.dim() != 3:
        return _batched_attention(query, key, value, attn_mask, options, platform)
    if platform.torch_version < UNBATCHED_IS_FUSED_SINCE:
        return _batched_attention(query, key, value, attn_mask, options, platform)
    batched = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    while attn_mask is not None and attn_mask.dim() < 4:
        attn_mask = attn_mask.unsqueeze(0)
    return _batched_attention(*batched, attn_mask, options, platform).squeeze(0)


def register_attention(capability_of: Callable[[], tuple[int, int]]) -> torch.library.Library:
    """From here on every attention on CUDA tensors of this process is :func:`attention`.

    ``capability_of`` is called for each call. The operator is below autocast, as long as the library that is
    returned lives. Without autograd (inference mode) fake tensors hand the operator to their mode before
    it comes here: that mode calls :func:`attention` itself.
    """

    def kernel(*args: Any, **kwargs: Any) -> torch.Tensor:
        return attention(*args, capability=capability_of(), **kwargs)

    library = torch.library.Library("aten", "IMPL")
    for dispatch_key in ("AutogradCUDA", "CUDA"):
        library.impl("scaled_dot_product_attention", kernel, dispatch_key)
    return library


@functools.cache
def platform_of(capability: tuple[int, int]) -> Platform:
    """This torch on a GPU of ``capability``; a build without cuDNN is given its CUDA wheel's."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    if torch._C._has_cudnn:
        parts = torch._C._cudnn.getRuntimeVersion()
        return Platform(capability, (major, minor), parts[0] * 10000 + parts[1] * 100 + parts[2])
    newest = max(CUDNN_OF_TORCH.values())
    return Platform(capability, (major, minor), CUDNN_OF_TORCH.get((major, minor), newest))


def _settings(platform: Platform) -> AttentionSettings:
    cuda: Any = torch.backends.cuda
    switches = {
        Backend.MATH: cuda.math_sdp_enabled(),
        Backend.FLASH: cuda.flash_sdp_enabled(),
        Backend.EFFICIENT: cuda.mem_efficient_sdp_enabled(),
        Backend.CUDNN: cuda.cudnn_sdp_enabled(),
    }
    deprioritized = os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"
    strict = not torch.is_deterministic_algorithms_warn_only_enabled()
    return AttentionSettings(
        enabled=frozenset(backend for backend, enabled in switches.items() if enabled),
        priority=priority_order(torch._C._get_sdp_priority_order(), platform, deprioritized=deprioritized),
        deterministic=torch.are_deterministic_algorithms_enabled() and strict,
    )


def _operand(tensor: torch.Tensor) -> Operand:
    return Operand(
        shape=tuple(tensor.shape),
        strides=tensor.stride(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset=int(tensor.storage_offset()),
        requires_grad=tensor.requires_grad,
    )


def _described(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, options: _Options
) -> AttentionCall:
    return AttentionCall(
        query=_operand(query),
        key=_operand(key),
        value=_operand(value),
        mask=None if mask is None else _operand(mask),
        dropout_p=options.dropout_p,
        is_causal=options.is_causal,
        enable_gqa=options.enable_gqa,
        grad_enabled=torch.is_grad_enabled(),
    )


def _validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> None:
    """What ``validate_sdpa_input`` refuses, so that nothing is estimated that cannot run."""
    operands = query, key, value
    if any(operand.is_nested for operand in operands):
        raise refusal("attention over nested tensors is not part of this release: pad them instead")
    dtypes, devices = [operand.dtype for operand in operands], [operand.device for operand in operands]
    if len(set(dtypes)) > 1 or len(set(devices)) > 1:
        raise RuntimeError(f"query, key and value must share dtype and device, not {dtypes} and {devices}")
    if any(operand.dim() < 2 for operand in operands):
        ranks = [operand.dim() for operand in operands]
        raise RuntimeError(f"query, key and value must have at least 2 dimensions, not {ranks}")
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(f"attn_mask must be bool, float or {query.dtype}, not {mask.dtype}")


def _empty_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Zeros that depend on all operands, for autograd."""
    zeros = torch.zeros((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
    nothing: torch.Tensor = aten.mul.Scalar(query.sum() + key.sum() + value.sum(), 0)
    return zeros + nothing


def _batched_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    options: _Options,
    platform: Platform,
) -> torch.Tensor:
    if platform.torch_version >= _EMPTY_IS_ZERO_SINCE and 0 in (query.numel(), key.numel(), value.numel()):
        return _empty_attention(query, key, value)
    call = _described(query, key, value, mask, options)
    backend = choose_backend(call, platform, _settings(platform))
    mask = _additive(mask, query.dtype)
    if backend is Backend.FLASH:
        return _flash(query, key, value, options)
    if backend is Backend.MATH:
        return _math(query, key, value, mask, options)
    if backend is Backend.CUDNN:
        kernel = aten._scaled_dot_product_cudnn_attention.default
    else:
        kernel = aten._scaled_dot_product_efficient_attention.default
        mask = None if mask is None else _aligned(mask, query, key)
    mask_trains = platform.torch_version >= _MASK_IS_TRAINED_SINCE and call.mask_trains
    rest = options.dropout_p, options.is_causal
    output: torch.Tensor = kernel(
        query, key, value, mask, call.trains or mask_trains, *rest, scale=options.scale
    )[0]
    return output


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A boolean mask as numbers to add: a tensor of its shape in ``dtype``, and two of one element."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _padded(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return torch.constant_pad_nd(tensor, [0, count]) if count else tensor


def _cut(tensor: torch.Tensor, length: int) -> torch.Tensor:
    view: torch.Tensor = aten.slice.Tensor(tensor, -1, 0, length)
    return view


def _aligned(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask with rows that start at multiples of 8 elements, expanded to all heads (``pad_bias``).

    Padding copies the mask; rows that are a multiple of 8 long but badly laid out get 8 more.
    """
    *outer, last = mask.stride()
    if last != 1 or any(stride % _ALIGNMENT for stride in outer):
        length = mask.shape[-1]
        mask = _cut(_padded(mask, _ALIGNMENT - length % _ALIGNMENT), length)
    return mask.expand(*query.shape[:3], key.shape[2])


def _flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: _Options) -> torch.Tensor:
    """Heads are padded to a multiple of 8; the scale is that of the heads as they were."""
    width = query.shape[-1]
    query, key, value = (_padded(operand, -width % _ALIGNMENT) for operand in (query, key, value))
    output: torch.Tensor = aten._scaled_dot_product_flash_attention.default(
        query,
        key,
        value,
        options.dropout_p,
        options.is_causal,
        False,
        scale=1 / math.sqrt(width) if options.scale is None else options.scale,
    )[0]
    return output if output.shape[-1] == width else _cut(output, width)


def _math(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, options: _Options
) -> torch.Tensor:
    """``_scaled_dot_product_attention_math`` as it runs on tensors that are not fake.

    PyTorch's own adds the mask to a fake tensor's scores out of place; real scores are written in place.
    Names are not reused, because C++ holds each of its variables until it returns.
    """
    if mask is not None and options.is_causal:
        raise RuntimeError("attn_mask must not be set when is_causal=True")
    accurate_query, accurate_key, accurate_value = (_accurate(operand) for operand in (query, key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if options.scale is None else options.scale
    factor = math.sqrt(abs(scale))
    scaled_query: torch.Tensor = aten.mul.Scalar(accurate_query, math.copysign(factor, scale))
    if options.is_causal:
        ones = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        mask = ones.tril()
        del ones
        mask = _additive(mask, scaled_query.dtype)
    keys, values = _shared_heads(query, accurate_key, accurate_value, options)
    weights = torch.matmul(scaled_query, aten.mul.Scalar(keys.transpose(-2, -1), factor))
    if mask is not None:
        weights.add_(mask)
    weights = aten._safe_softmax.default(weights, -1)
    if options.dropout_p > 0:
        weights = torch.dropout(weights, options.dropout_p, True)
    # C++ makes both results before it gives one up
    return (weights.to(query.dtype), torch.matmul(weights, values).to(query.dtype))[1]


def _accurate(operand: torch.Tensor) -> torch.Tensor:
    """In fp32 where the dtype is half, unless ``allow_fp16_bf16_reduction_math_sdp`` was called."""
    allowed = torch._C._get_math_sdp_allow_fp16_bf16_reduction()
    half = operand.dtype in (torch.float16, torch.bfloat16)
    return operand.float() if half and not allowed else operand


def _shared_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: _Options
) -> tuple[torch.Tensor, torch.Tensor]:
    """With ``enable_gqa`` key and value once for each head of query that shares them."""
    if not options.enable_gqa:
        return key, value
    heads, key_heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    if heads == key_heads == value_heads:
        return key, value
    if heads % key_heads or heads % value_heads:
        raise RuntimeError(f"heads of key and value must divide query's: {heads}, {key_heads}, {value_heads}")
    return key.repeat_interleave(heads // key_heads, -3), value.repeat_interleave(heads // value_heads, -3)
