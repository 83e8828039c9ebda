"""``scaled_dot_product_attention`` on the virtual device: the operators that a CUDA build would call.

A CPU build knows no CUDA kernel to choose and computes attention by formula, with score matrices that no
GPU ever holds. Here the kernel is chosen by CUDA's rules and its operator called, so that shapes, saved
tensors and backward are the kernel's own. The steps around it (padding, masks, heads) are those of
``aten/src/ATen/native/transformers/attention.cpp`` in PyTorch 2.11 to 2.15.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable

import torch

from ..errors import NotAvailable
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

aten = torch.ops.aten

#: FlashAttention's kernels load 8 elements of a head at once (``pad_last_dim``).
_FLASH_ALIGNMENT = 8
#: CUTLASS loads 8 elements of the mask at once (``preprocess_mask``).
_MASK_ALIGNMENT = 8
#: From here on a call with an empty operand is answered without a kernel; before, kernels were asked.
_EMPTY_IS_ZERO_SINCE = (2, 12)


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
    _validate(query, key, value, attn_mask, is_causal, platform)
    if platform.torch_version >= _EMPTY_IS_ZERO_SINCE and 0 in (query.numel(), key.numel(), value.numel()):
        return _empty_attention(query, key, value)
    unbatched = query.dim() == key.dim() == value.dim() == 3
    if unbatched and platform.torch_version >= UNBATCHED_IS_FUSED_SINCE:
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
        while attn_mask is not None and attn_mask.dim() < 4:
            attn_mask = attn_mask.unsqueeze(0)
        operands = query, key, value, attn_mask
        return _batched_attention(*operands, dropout_p, is_causal, scale, enable_gqa, platform).squeeze(0)
    return _batched_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, platform)


def register_attention(capability_of: Callable[[], tuple[int, int]]) -> torch.library.Library:
    """From here on every attention on CUDA tensors of this process is :func:`attention`.

    ``capability_of`` is asked at each call. Registered below autocast, where PyTorch's own function
    stands; for as long as the library that is returned lives. Without autograd (inference mode) fake
    tensors hand the operator to their mode before it comes here: the mode calls :func:`attention`.
    """

    def kernel(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        capability = capability_of()
        return attention(
            query, key, value, attn_mask, dropout_p, is_causal,
            scale=scale, enable_gqa=enable_gqa, capability=capability,
        )  # fmt: skip

    library = torch.library.Library("aten", "IMPL")
    for dispatch_key in ("AutogradCUDA", "CUDA"):
        library.impl("scaled_dot_product_attention", kernel, dispatch_key)
    return library


@functools.cache
def platform_of(capability: tuple[int, int]) -> Platform:
    """This torch on a GPU of ``capability``; for a build without cuDNN, with the one its CUDA wheel brings."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    if torch._C._has_cudnn:
        parts: tuple[int, int, int] = torch._C._cudnn.getRuntimeVersion()  # type: ignore[attr-defined]
        cudnn_version = parts[0] * 10000 + parts[1] * 100 + parts[2]
    else:
        cudnn_version = CUDNN_OF_TORCH.get((major, minor), max(CUDNN_OF_TORCH.values()))
    return Platform(capability, (major, minor), cudnn_version)


def _settings(platform: Platform) -> AttentionSettings:
    cuda = torch.backends.cuda
    switches = {
        Backend.MATH: cuda.math_sdp_enabled(),
        Backend.FLASH: cuda.flash_sdp_enabled(),
        Backend.EFFICIENT: cuda.mem_efficient_sdp_enabled(),
        Backend.CUDNN: cuda.cudnn_sdp_enabled(),
    }
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return AttentionSettings(
        enabled=frozenset(backend for backend, enabled in switches.items() if enabled),
        priority=priority_order(
            torch._C._get_sdp_priority_order(),
            platform,
            deprioritized=os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1",
        ),
        deterministic=torch.are_deterministic_algorithms_enabled() and not warn_only,
    )


def _operand(tensor: torch.Tensor) -> Operand:
    return Operand(
        shape=tuple(tensor.shape),
        strides=tensor.stride(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset=int(tensor.storage_offset()),
        requires_grad=tensor.requires_grad,
    )


def _validate(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    platform: Platform,
) -> None:
    """What ``validate_sdpa_input`` refuses, so that nothing is estimated that cannot run."""
    operands = query, key, value
    if any(operand.is_nested for operand in operands):
        raise NotAvailable(
            "attention over nested tensors is not part of the virtual device: pad them instead"
        )
    if len({operand.dtype for operand in operands}) > 1:
        raise RuntimeError(f"query, key and value must share a dtype, not {[o.dtype for o in operands]}")
    if len({operand.device for operand in operands}) > 1:
        raise RuntimeError(f"query, key and value must share a device, not {[o.device for o in operands]}")
    if any(operand.dim() < 2 for operand in operands):
        raise RuntimeError(
            f"query, key and value must be at least 2-dimensional, not {[o.dim() for o in operands]}"
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(f"attn_mask must be bool, float or {query.dtype}, not {mask.dtype}")
    if mask is not None and is_causal and platform.torch_version >= MASK_EXCLUDES_CAUSAL_SINCE:
        raise RuntimeError("attn_mask must not be set when is_causal=True")


def _empty_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Zeros that depend on all operands, for autograd."""
    zeros = torch.zeros((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=query.device)
    return zeros + aten.mul.Scalar(query.sum() + key.sum() + value.sum(), 0)


def _batched_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    platform: Platform,
) -> torch.Tensor:
    operands = query, key, value
    trains = torch.is_grad_enabled() and any(operand.requires_grad for operand in operands)
    call = AttentionCall(
        *(_operand(operand) for operand in operands),
        mask=None if mask is None else _operand(mask),
        dropout_p=dropout_p,
        is_causal=is_causal,
        enable_gqa=enable_gqa,
        grad_enabled=torch.is_grad_enabled(),
    )
    backend = choose_backend(call, platform, _settings(platform))
    mask = _additive(mask, query.dtype)
    if backend is Backend.FLASH:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if backend is Backend.EFFICIENT:
        mask = None if mask is None else _aligned_mask(mask, query, key)
        return _output(aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, trains, dropout_p, is_causal, scale=scale
        ))  # fmt: skip
    if backend is Backend.CUDNN:
        return _output(aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, trains, dropout_p, is_causal, False, scale=scale
        ))  # fmt: skip
    return _math(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)


def _output(results: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return results[0]


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A boolean mask as numbers to add: a tensor of its shape in ``dtype``, and two of one element."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _padded(tensor: torch.Tensor, count: int) -> torch.Tensor:
    return torch.constant_pad_nd(tensor, [0, count]) if count else tensor


def _flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """Heads are padded with zeros to a multiple of 8, and the scale is that of the heads as they were."""
    width = query.shape[-1]
    query, key, value = (
        _padded(operand, -operand.shape[-1] % _FLASH_ALIGNMENT) for operand in (query, key, value)
    )
    scale = 1 / math.sqrt(width) if scale is None else scale
    output = _output(
        aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)
    )
    return output if output.shape[-1] == width else output[..., :width]


def _aligned_mask(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask with rows that start at multiples of 8 elements, expanded to all heads (``pad_bias``).

    Padding copies the mask; rows that are a multiple of 8 already but badly laid out get 8 more.
    """
    *outer, last = mask.stride()
    if last != 1 or any(stride % _MASK_ALIGNMENT for stride in outer):
        length = mask.shape[-1]
        mask = _padded(mask, _MASK_ALIGNMENT - length % _MASK_ALIGNMENT)[..., :length]
    return mask.expand(*query.shape[:3], key.shape[2])


def _math(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """``_scaled_dot_product_attention_math``, as it runs on tensors that are not fake.

    Half precision is computed in fp32 unless ``allow_fp16_bf16_reduction_math_sdp``. PyTorch's own function
    adds the mask to a fake tensor's scores out of place; real scores are written in place.
    """
    dtype = query.dtype
    if (
        dtype in (torch.float16, torch.bfloat16)
        and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    ):
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else abs(scale))
    query = aten.mul.Scalar(query, -factor if scale is not None and scale < 0 else factor)
    if is_causal:
        if mask is not None:
            raise RuntimeError("attn_mask must not be set when is_causal=True")
        lengths = query.shape[-2], key.shape[-2]
        mask = _additive(torch.ones(lengths, dtype=torch.bool, device=query.device).tril(), query.dtype)
    key_heads, value_heads = _repeated_heads(query, key, value) if enable_gqa else (key, value)
    weights = torch.matmul(query, aten.mul.Scalar(key_heads.transpose(-2, -1), factor))
    if mask is not None:
        weights.add_(mask)
    weights = aten._safe_softmax(weights, -1)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    returned_weights = weights.to(dtype)  # noqa: F841 (PyTorch holds it until the function is left)
    return torch.matmul(weights, value_heads).to(dtype)


def _repeated_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Key and value once for each head of query that shares them."""
    heads, key_heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    if heads == key_heads == value_heads:
        return key, value
    if heads % key_heads or heads % value_heads:
        raise RuntimeError(f"heads of key and value must divide query's: {heads}, {key_heads}, {value_heads}")
    return key.repeat_interleave(heads // key_heads, -3), value.repeat_interleave(heads // value_heads, -3)
