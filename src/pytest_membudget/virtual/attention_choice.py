"""Which attention kernel a CUDA build of PyTorch chooses for a call: the rules, without torch.

The rules are those of ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`` and
``sdp_utils_cpp.h`` (pytorch/pytorch), for dense tensors on NVIDIA devices. Each rule that differs
between releases says since which one it holds; all were held against the compiled choice of the
CUDA wheels 2.11.0 to 2.15.0 on PyPI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from pytest_membudget.errors import MembudgetError


class Backend(IntEnum):
    """The kernels of ``scaled_dot_product_attention``, numbered as ``torch.nn.attention.SDPBackend``."""

    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3


class NoAvailableKernel(MembudgetError, RuntimeError):
    """No kernel may run the call; PyTorch raises ``RuntimeError`` here, and so is this one."""


DEFAULT_PRIORITY: Final = (Backend.FLASH, Backend.EFFICIENT, Backend.MATH, Backend.CUDNN)
"""``sdp_priority_order`` in ``aten/src/ATen/Context.h``, 2.11 to 2.15."""

CUDNN_FIRST: Final = (Backend.CUDNN, Backend.FLASH, Backend.EFFICIENT, Backend.MATH)
"""What ``priority_order`` in ``sdp_utils.cpp`` puts in its place, 2.11 to 2.15."""

UNBATCHED_IS_FUSED_SINCE: Final = (2, 14)
"""From here on three-dimensional calls get a batch dimension of 1; before, they all went to MATH."""

MASK_EXCLUDES_CAUSAL_SINCE: Final = (2, 14)
"""From here on every kernel refuses a mask together with ``is_causal``; before, only MATH did."""

CUDNN_OF_TORCH: Final = {
    (2, 11): 91900,
    (2, 12): 92000,
    (2, 13): 92000,
    (2, 14): 92400,
    (2, 15): 92600,
}
"""The cuDNN each release's CUDA wheel on PyPI requires (``nvidia-cudnn-cu13``)."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as the choice sees it; ``dtype`` as in ``"bfloat16"``, strides and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int = 0
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """The arguments of one ``scaled_dot_product_attention``, and whether gradients are recorded."""

    query: Operand
    key: Operand
    value: Operand
    mask: Operand | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False
    grad_enabled: bool = True


@dataclass(frozen=True, slots=True)
class AttentionSettings:
    """What ``torch.backends.cuda``, ``sdpa_kernel`` and deterministic mode (not warn-only) are set to."""

    enabled: frozenset[Backend] = field(default_factory=lambda: frozenset(Backend))
    priority: tuple[Backend, ...] = DEFAULT_PRIORITY
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class Platform:
    """The device's compute capability, torch's ``(major, minor)``, and ``cudnnGetVersion()``, or None."""

    capability: tuple[int, int]
    torch_version: tuple[int, int]
    cudnn_version: int | None


@dataclass(frozen=True, slots=True)
class _Case:
    call: AttentionCall
    platform: Platform
    settings: AttentionSettings

    @property
    def head_dims(self) -> tuple[int, int, int]:
        return self.call.query.shape[-1], self.call.key.shape[-1], self.call.value.shape[-1]

    @property
    def heads(self) -> tuple[int, int, int]:
        return self.call.query.shape[-3], self.call.key.shape[-3], self.call.value.shape[-3]

    @property
    def operands(self) -> tuple[Operand, Operand, Operand]:
        return self.call.query, self.call.key, self.call.value

    @property
    def trains(self) -> bool:
        return self.call.grad_enabled and any(operand.requires_grad for operand in self.operands)

    def since(self, major: int, minor: int) -> bool:
        return self.platform.torch_version >= (major, minor)

    @property
    def cudnn(self) -> int:
        return self.platform.cudnn_version or 0


_Check = Callable[[_Case], str | None]


def prefers_cudnn(platform: Platform, *, deprioritized: bool = False) -> bool:
    """Whether the process's first choice puts cuDNN first (``check_prefer_cudnn_attention``).

    ``deprioritized``: ``TORCH_CUDNN_SDPA_DEPRIORITIZED=1`` is in the environment.
    """
    return not deprioritized and (platform.cudnn_version or 0) > 91500 and platform.capability[0] in (9, 10)


def choose_backend(
    call: AttentionCall, platform: Platform, settings: AttentionSettings | None = None
) -> Backend:
    """The kernel that runs ``call``; :class:`NoAvailableKernel` where none may."""
    settings = settings or AttentionSettings()
    case = _Case(call, platform, settings)
    for backend in settings.priority:
        if next(_reasons(backend, case), None) is None:
            return backend
    reasons = "\n".join(
        f"  {backend.name}: {reason}" for backend in Backend for reason in _reasons(backend, case)
    )
    raise NoAvailableKernel(f"No available kernel for scaled_dot_product_attention:\n{reasons}")


def why_not(
    backend: Backend, call: AttentionCall, platform: Platform, settings: AttentionSettings | None = None
) -> tuple[str, ...]:
    """Everything that keeps ``backend`` from running ``call``; empty where it can."""
    return tuple(_reasons(backend, _Case(call, platform, settings or AttentionSettings())))


def _reasons(backend: Backend, case: _Case) -> Iterator[str]:
    if backend not in case.settings.enabled:
        yield "it has been switched off"
    if backend is Backend.MATH:
        return
    ranks = [len(operand.shape) for operand in case.operands]
    if ranks != [4, 4, 4]:
        yield f"query, key and value must have 4 dimensions, not {ranks}"
        return
    yield from (reason for check in _CHECKS[backend] if (reason := check(case)) is not None)


def _architecture(oldest: tuple[int, int]) -> _Check:
    def check(case: _Case) -> str | None:
        if oldest <= case.platform.capability <= (12, 1):
            return None
        return f"it is for compute capabilities {oldest} to (12, 1), not {case.platform.capability}"

    return check


def _dtypes(*dtypes: str) -> _Check:
    def check(case: _Case) -> str | None:
        found = {operand.dtype for operand in case.operands}
        allowed = set(dtypes) - ({"bfloat16"} if case.platform.capability[0] < 8 else set())
        if len(found) == 1 and found <= allowed:
            return None
        return f"query, key and value must share a dtype of {sorted(allowed)}, not {sorted(found)}"

    return check


def _same_batch(case: _Case) -> str | None:
    batches = [operand.shape[0] for operand in case.operands]
    return None if len(set(batches)) == 1 else f"the batch sizes differ: {batches}"


def _head_counts(*, gqa_since: tuple[int, int], mqa_since: tuple[int, int], same_kv: bool) -> _Check:
    """``mqa``: one head of key and value broadcasts without ``enable_gqa``."""

    def check(case: _Case) -> str | None:
        query, key, value = case.heads
        if case.call.enable_gqa and case.since(*gqa_since):
            shared = key == value or not same_kv
            fits = key > 0 and value > 0 and query % key == 0 and query % value == 0
            return None if shared and fits else f"heads of key and value must divide query's: {case.heads}"
        one_for_all = case.since(*mqa_since) and query > 0 and key == value == 1
        return None if query == key == value or one_for_all else f"the numbers of heads differ: {case.heads}"

    return check


def _grid_limit(since: tuple[int, int]) -> _Check:
    def check(case: _Case) -> str | None:
        batch, heads = case.call.query.shape[:2]
        if case.since(*since) and max(batch, heads) > 65535:
            return f"batch size and heads must be at most 65535, not {batch} and {heads}"
        return None

    return check


def _sequences(case: _Case) -> str | None:
    lengths = case.call.query.shape[-2], case.call.key.shape[-2]
    return f"a sequence is empty: {lengths}" if 0 in lengths else None


def _last_strides(*, any_stride_of_one: bool) -> _Check:
    def check(case: _Case) -> str | None:
        dense = all(operand.strides[-1] == 1 for operand in case.operands)
        singleton = any_stride_of_one and case.call.query.shape[-1] == 1
        mask = case.call.mask
        if (dense or singleton) and (mask is None or mask.strides[-1] == 1):
            return None
        return "the last dimension of query, key, value and mask must have stride 1"

    return check


def _flash_mask(case: _Case) -> str | None:
    return None if case.call.mask is None else "it takes no attn_mask"


def _flash_head_dims(case: _Case) -> str | None:
    if len(set(case.head_dims)) == 1 and case.head_dims[0] <= 256:
        return None
    return f"query, key and value must share a head dimension of at most 256, not {case.head_dims}"


def _flash_training(case: _Case) -> str | None:
    """Consumer cards have too little shared memory for the widest backward kernels."""
    capability, width = case.platform.capability, case.head_dims[0]
    small = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    if not (case.trains and small) or width <= 192 or (width > 224 and case.call.dropout_p == 0):
        return None
    return f"its backward on {capability} takes no head dimension of {width} with this dropout"


def _flash_causal(case: _Case) -> str | None:
    lengths = case.call.query.shape[-2], case.call.key.shape[-2]
    if case.call.is_causal and lengths[0] != lengths[1]:
        return f"is_causal needs query and key of one length, not {lengths}"
    return None


def _efficient_alignment(case: _Case) -> int:
    """The elements that CUTLASS loads at once (``minimum_gemm_alignment``)."""
    half = case.call.query.dtype in ("float16", "bfloat16")
    if case.platform.capability[0] >= 8 or (case.platform.capability[0] == 7 and half):
        return 8 if half else 4
    return 1


def _efficient_head_dims(case: _Case) -> str | None:
    (query, key, value), alignment = case.head_dims, _efficient_alignment(case)
    if query == key and query > 0 and value > 0 and query % alignment == 0 and value % alignment == 0:
        return None
    return f"head dimensions must be multiples of {alignment}, query's equal to key's, not {case.head_dims}"


def _efficient_offsets(case: _Case) -> str | None:
    """Since 2.13 (``check_data_ptr_alignment_mem_efficient``)."""
    if not case.since(2, 13) or case.platform.capability[0] < 8:
        return None
    alignment = _efficient_alignment(case)
    if all(operand.offset % alignment == 0 or 0 in operand.shape for operand in case.operands):
        return None
    return f"storage offsets must be multiples of {alignment} elements"


def _cudnn_version(case: _Case) -> str | None:
    if case.cudnn < 90000:
        return f"it needs cuDNN 9.0, not {case.platform.cudnn_version}"
    return None


def _cudnn_deterministic(case: _Case) -> str | None:
    return "it is not deterministic" if case.settings.deterministic else None


def _cudnn_dropout(case: _Case) -> str | None:
    dropout = case.call.dropout_p
    if dropout > 0 and 91100 < case.cudnn < 91400:
        return "cuDNN 9.11 to 9.13 has no dropout"
    if case.since(2, 12) and not math.isclose(dropout * 16, round(dropout * 16), rel_tol=0, abs_tol=0):
        return f"dropout must be a multiple of 1/16, not {dropout}"
    return None


def _cudnn_mask(case: _Case) -> str | None:
    mask = case.call.mask
    if mask is None:
        return None
    if mask.requires_grad:
        return "it has no gradient for attn_mask"
    full = (*case.call.query.shape[:3], case.call.key.shape[2])[-len(mask.shape) :]
    if len(mask.shape) in (2, 4) and all(m in (1, f) for m, f in zip(mask.shape, full, strict=True)):
        return None
    return f"attn_mask must be (L, S) or (N, H, L, S), or 1 in their place, not {mask.shape}"


def _cudnn_wide_heads(case: _Case) -> bool:
    """Whether cuDNN's kernels for head dimensions up to 256 are there (since 2.14)."""
    major, minor = case.platform.capability
    unfinished = (major, minor) == (10, 7) and case.cudnn <= 92500
    return case.since(2, 14) and (major, minor) in _DATA_CENTRE and case.cudnn > 92200 and not unfinished


def _cudnn_head_dims(case: _Case) -> str | None:
    wide, _, value = case.head_dims
    limit = 128
    if _cudnn_wide_heads(case):
        limit = 256
    elif not case.since(2, 14) and case.platform.capability == (9, 0) and case.cudnn >= 91000:
        limit = 256
    elif case.platform.capability in _DATA_CENTRE and case.cudnn >= 91100 and (wide, value) == (192, 128):
        limit = 192
    if max(wide, value) > limit or wide % 8 or value % 8:
        return f"head dimensions must be multiples of 8 up to {limit}, not {case.head_dims}"
    return None


def _cudnn_wide_training(case: _Case) -> str | None:
    wide, _, value = case.head_dims
    trained = max(wide, value) <= 128 or (wide, value) in {(192, 128), (256, 256)}
    if case.trains and _cudnn_wide_heads(case) and not trained:
        return f"its backward takes no head dimensions {case.head_dims}"
    return None


def _cudnn_lengths(case: _Case) -> str | None:
    query, key = case.call.query.shape[2], case.call.key.shape[2]
    if key == 1 or (query == 1 and case.call.dropout_p != 0):
        return f"it takes no sequence of 1 for key, nor for query with dropout: {(query, key)}"
    broken = 91900 <= case.cudnn <= 92500 and not 92401 <= case.cudnn < 92500
    if case.since(2, 14) and query == 1 and broken and case.platform.capability[0] in (10, 11):
        return f"cuDNN {case.cudnn} takes no query of length 1 on {case.platform.capability}"
    return None


def _cudnn_query_gradients(case: _Case) -> str | None:
    """Since 2.15: kernels on Hopper that may give NaN are passed over (pytorch/pytorch#196678)."""
    if not case.since(2, 15) or case.cudnn >= 92600 or case.platform.capability != (9, 0):
        return None
    call = case.call
    if call.is_causal or not call.query.requires_grad:  # whether gradients are recorded is not asked
        return None
    length = call.key.shape[2]
    return f"its query gradients may be NaN for {length} keys" if length % 128 == 64 else None


_DATA_CENTRE: Final = frozenset({(9, 0), *((10, minor) for minor in range(10))})

_CHECKS: Final[dict[Backend, tuple[_Check, ...]]] = {
    Backend.FLASH: (
        _architecture((8, 0)),
        _dtypes("float16", "bfloat16"),
        _flash_mask,
        _flash_head_dims,
        _flash_training,
        _flash_causal,
        _same_batch,
        _head_counts(gqa_since=(2, 11), mqa_since=(2, 14), same_kv=True),
        _grid_limit((2, 15)),
        _sequences,
        _last_strides(any_stride_of_one=True),
    ),
    Backend.EFFICIENT: (
        _architecture((5, 0)),
        _dtypes("float16", "bfloat16", "float32"),
        _efficient_head_dims,
        _efficient_offsets,
        _same_batch,
        _head_counts(gqa_since=(2, 14), mqa_since=(2, 14), same_kv=True),
        _sequences,
        _last_strides(any_stride_of_one=False),
    ),
    Backend.CUDNN: (
        _cudnn_version,
        _architecture((8, 0)),
        _dtypes("float16", "bfloat16"),
        _cudnn_deterministic,
        _cudnn_dropout,
        _cudnn_mask,
        _same_batch,
        _head_counts(gqa_since=(2, 11), mqa_since=(2, 14), same_kv=False),
        _grid_limit((2, 13)),
        _sequences,
        _last_strides(any_stride_of_one=True),
        _cudnn_head_dims,
        _cudnn_wide_training,
        _cudnn_lengths,
        _cudnn_query_gradients,
    ),
}
