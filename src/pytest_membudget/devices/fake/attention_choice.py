"""Which attention kernel a CUDA build of PyTorch chooses for a call: the rules, without torch.

They are those of ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`` and ``sdp_utils_cpp.h``
(pytorch/pytorch) for dense tensors on NVIDIA devices. A rule that differs between releases says since
which one it holds. All were held against what the CUDA wheels 2.11.0 to 2.15.0 on PyPI choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from ...errors import MembudgetError


class Backend(IntEnum):
    """The kernels of ``scaled_dot_product_attention``, numbered as ``torch.nn.attention.SDPBackend``."""

    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3


class NoKernelError(MembudgetError, RuntimeError):
    """No kernel may run the call. PyTorch raises ``RuntimeError`` here, and user code may expect that."""


DEFAULT_PRIORITY: Final = (Backend.FLASH, Backend.EFFICIENT, Backend.MATH, Backend.CUDNN)
"""``sdp_priority_order`` in ``aten/src/ATen/Context.h``, 2.11 to 2.15."""

CUDNN_FIRST: Final = (Backend.CUDNN, Backend.FLASH, Backend.EFFICIENT, Backend.MATH)
"""What ``priority_order`` in ``sdp_utils.cpp`` puts in its place, 2.11 to 2.15."""

UNBATCHED_IS_FUSED_SINCE: Final = (2, 14)
"""From here on three-dimensional calls get a batch dimension of 1; before, they all went to MATH."""

MASK_EXCLUDES_CAUSAL_SINCE: Final = (2, 14)
"""From here on every kernel refuses a mask together with ``is_causal``; before, only MATH did."""

CUDNN_OF_TORCH: Final = {(2, 11): 91900, (2, 12): 92000, (2, 13): 92000, (2, 14): 92400, (2, 15): 92600}
"""The cuDNN that each release's CUDA 13 wheel on PyPI requires (``nvidia-cudnn-cu13``)."""

_GRID_LIMIT: Final = 65535  # blocks in a CUDA grid's y and z dimensions


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

    @property
    def operands(self) -> tuple[Operand, Operand, Operand]:
        """Query, key and value."""
        return self.query, self.key, self.value

    @property
    def trains(self) -> bool:
        """Whether a gradient is recorded for query, key or value."""
        return self.grad_enabled and any(operand.requires_grad for operand in self.operands)

    @property
    def mask_trains(self) -> bool:
        """Whether a gradient is recorded for the mask."""
        return self.grad_enabled and self.mask is not None and self.mask.requires_grad


@dataclass(frozen=True, slots=True)
class AttentionSettings:
    """What ``torch.backends.cuda``, ``sdpa_kernel`` and deterministic mode (not warn-only) are set to."""

    enabled: frozenset[Backend] = field(default_factory=lambda: frozenset(Backend))
    priority: tuple[Backend, ...] = DEFAULT_PRIORITY
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class Platform:
    """Compute capability, torch's ``(major, minor)``, and ``cudnnGetVersion()`` (92000 is 9.20.0)."""

    capability: tuple[int, int]
    torch_version: tuple[int, int]
    cudnn_version: int


def priority_order(
    order: Sequence[int], platform: Platform, *, deprioritized: bool = False
) -> tuple[Backend, ...]:
    """The kernels in the order in which they are asked; ``order`` is torch's at the moment.

    On Hopper and data-centre Blackwell CUDA puts cuDNN first, once in a process and whatever was set
    before (``check_prefer_cudnn_attention``). Here the default order means that nobody has set one, so
    that a process may change its device. ``deprioritized``: ``TORCH_CUDNN_SDPA_DEPRIORITIZED=1``.
    """
    untouched = tuple(order[: len(DEFAULT_PRIORITY)]) == DEFAULT_PRIORITY
    preferred = platform.cudnn_version > 91500 and platform.capability[0] in (9, 10)
    if untouched and preferred and not deprioritized:
        return CUDNN_FIRST
    return tuple(Backend(number) for number in order if number in set(Backend))


def choose_backend(call: AttentionCall, platform: Platform, settings: AttentionSettings) -> Backend:
    """The kernel that runs ``call``; :class:`NoKernelError` where none may."""
    for backend in settings.priority:
        if next(_reasons(backend, call, platform, settings), None) is None:
            return backend
    reasons = (
        f"{backend.name}: {reason}"
        for backend in Backend
        for reason in why_not(backend, call, platform, settings)
    )
    raise NoKernelError("No available kernel for scaled_dot_product_attention:\n  " + "\n  ".join(reasons))


def why_not(
    backend: Backend, call: AttentionCall, platform: Platform, settings: AttentionSettings
) -> tuple[str, ...]:
    """Everything that keeps ``backend`` from running ``call``; empty where it can."""
    return tuple(_reasons(backend, call, platform, settings))


def _reasons(
    backend: Backend, call: AttentionCall, platform: Platform, settings: AttentionSettings
) -> Iterator[str]:
    if backend not in settings.enabled:
        yield "it has been switched off"
    if backend is Backend.MATH:
        return
    ranks = [len(operand.shape) for operand in call.operands]
    if ranks != [4, 4, 4]:
        yield f"query, key and value must have 4 dimensions, not {ranks}"
        return
    if backend is Backend.FLASH:
        yield from _against_flash(call, platform)
    elif backend is Backend.EFFICIENT:
        yield from _against_efficient(call, platform)
    else:
        if settings.deterministic:
            yield "it is not deterministic"
        yield from _against_cudnn(call, platform)
        yield from _against_cudnn_shapes(call, platform)
        yield from _against_cudnn_bugs(call, platform)


def _against_all(
    call: AttentionCall,
    platform: Platform,
    *,
    since: tuple[int, int],
    dtypes: tuple[str, ...],
    singleton: bool,
) -> Iterator[str]:
    """``since``: the oldest capability. ``singleton``: heads of one element may have any stride."""
    if not since <= platform.capability <= (12, 1):
        yield f"it is for compute capabilities {since} to (12, 1), not {platform.capability}"
    found = {operand.dtype for operand in call.operands}
    allowed = set(dtypes) - ({"bfloat16"} if platform.capability[0] < 8 else set())
    if len(found) > 1 or not found <= allowed:
        yield f"query, key and value must share a dtype of {sorted(allowed)}, not {sorted(found)}"
    batches = [operand.shape[0] for operand in call.operands]
    if len(set(batches)) > 1:
        yield f"the batch sizes differ: {batches}"
    lengths = call.query.shape[-2], call.key.shape[-2]
    if 0 in lengths:
        yield f"a sequence is empty: {lengths}"
    dense = all(operand.strides[-1] == 1 for operand in call.operands)
    if not dense and not (singleton and call.query.shape[-1] == 1):
        yield "the last dimension of query, key and value must have stride 1"
    if call.mask is not None and call.mask.strides[-1] != 1:
        yield "the last dimension of attn_mask must have stride 1"


def _against_heads(call: AttentionCall, platform: Platform, *, grouped: bool, equal: bool) -> Iterator[str]:
    """``grouped``: ``enable_gqa`` is used. ``equal``: key and value must have as many heads as each other.

    Since 2.14 one head of key and value serves all of query's, even without ``enable_gqa``.
    """
    query, key, value = heads = tuple(operand.shape[1] for operand in call.operands)
    if call.enable_gqa and grouped:
        if 0 in (key, value) or query % key or query % value or (equal and key != value):
            yield f"heads of key and value must be equal and divide query's, not {heads}"
    elif not (query == key == value or (platform.torch_version >= (2, 14) and query and key == value == 1)):
        yield f"the numbers of heads differ: {heads}"


def _against_flash(call: AttentionCall, platform: Platform) -> Iterator[str]:
    capability = platform.capability
    yield from _against_all(call, platform, since=(8, 0), dtypes=("float16", "bfloat16"), singleton=True)
    yield from _against_heads(call, platform, grouped=True, equal=True)
    if call.mask is not None:
        yield "it takes no attn_mask"
    widths = [operand.shape[-1] for operand in call.operands]
    if len(set(widths)) > 1 or widths[0] > 256:
        yield f"query, key and value must share a head dimension of at most 256, not {widths}"
    consumer = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    if consumer and call.trains and widths[0] > 192 and (widths[0] <= 224 or call.dropout_p > 0):
        yield f"shared memory on {capability} is too small for the backward of head dimension {widths[0]}"
    lengths = call.query.shape[-2], call.key.shape[-2]
    if call.is_causal and lengths[0] != lengths[1]:
        yield f"is_causal needs query and key of one length, not {lengths}"
    if platform.torch_version >= (2, 15) and max(call.query.shape[:2]) > _GRID_LIMIT:
        yield f"batch size and heads must be at most {_GRID_LIMIT}, not {call.query.shape[:2]}"


def _against_efficient(call: AttentionCall, platform: Platform) -> Iterator[str]:
    dtypes = "float16", "bfloat16", "float32"
    yield from _against_all(call, platform, since=(5, 0), dtypes=dtypes, singleton=False)
    yield from _against_heads(call, platform, grouped=platform.torch_version >= (2, 14), equal=True)
    # CUTLASS loads 16 bytes at once with tensor cores (minimum_gemm_alignment)
    half = call.query.dtype in ("float16", "bfloat16")
    tensor_cores = platform.capability[0] >= 8 or (platform.capability[0] == 7 and half)
    alignment = (8 if half else 4) if tensor_cores else 1
    query, key, value = widths = tuple(operand.shape[-1] for operand in call.operands)
    if query != key or 0 in widths or query % alignment or value % alignment:
        yield f"head dimensions must be multiples of {alignment}, query's equal to key's, not {widths}"
    if platform.torch_version >= (2, 13) and platform.capability[0] >= 8:
        offsets = [operand.offset for operand in call.operands if 0 not in operand.shape]
        if any(offset % alignment for offset in offsets):
            yield f"storage offsets must be multiples of {alignment} elements, not {offsets}"


def _against_cudnn(call: AttentionCall, platform: Platform) -> Iterator[str]:
    yield from _against_all(call, platform, since=(8, 0), dtypes=("float16", "bfloat16"), singleton=True)
    yield from _against_heads(call, platform, grouped=True, equal=False)
    if platform.cudnn_version < 90000:
        yield f"it needs cuDNN 9, not {platform.cudnn_version}"
    if call.dropout_p > 0 and 91100 < platform.cudnn_version < 91400:
        yield "cuDNN 9.11 to 9.13 has no dropout"
    if platform.torch_version >= (2, 12) and (call.dropout_p * 16) % 1:
        yield f"dropout must be a multiple of 1/16, not {call.dropout_p}"
    if call.mask is None:
        return
    if call.mask.requires_grad:
        yield "it has no gradient for attn_mask"
    full = (*call.query.shape[:3], call.key.shape[2])[-len(call.mask.shape) :]
    if len(full) not in (2, 4) or any(m not in (1, f) for m, f in zip(call.mask.shape, full, strict=True)):
        yield f"attn_mask must be (L, S) or (N, H, L, S), or 1 in their place, not {call.mask.shape}"


def _against_cudnn_shapes(call: AttentionCall, platform: Platform) -> Iterator[str]:
    query, value = call.query.shape[-1], call.value.shape[-1]
    full_size = platform.capability == (9, 0) or platform.capability[0] == 10
    unfinished = platform.capability == (10, 7) and platform.cudnn_version <= 92500
    # since 2.14 with heads up to 256 wide on all of them, before on Hopper alone
    wide = platform.torch_version >= (2, 14) and platform.cudnn_version > 92200
    wide = wide and full_size and not unfinished
    narrow_hopper = platform.torch_version < (2, 14) and platform.capability == (9, 0)
    limit = 256 if wide or (narrow_hopper and platform.cudnn_version >= 91000) else 128
    deepseek = (query, value) == (192, 128) and full_size and platform.cudnn_version >= 91100
    if (max(query, value) > limit and not deepseek) or query % 8 or value % 8:
        yield f"head dimensions must be multiples of 8 up to {limit}, not {query} and {value}"
    if wide and call.trains and max(query, value) > 128 and (query, value) not in {(192, 128), (256, 256)}:
        yield f"its backward takes no head dimensions of {query} and {value}"
    if platform.torch_version >= (2, 13) and max(call.query.shape[:2]) > _GRID_LIMIT:
        yield f"batch size and heads must be at most {_GRID_LIMIT}, not {call.query.shape[:2]}"


def _against_cudnn_bugs(call: AttentionCall, platform: Platform) -> Iterator[str]:
    """Calls that PyTorch keeps from cuDNN because kernels of some versions fail in them."""
    query, key, cudnn = call.query.shape[2], call.key.shape[2], platform.cudnn_version
    if key == 1 or (query == 1 and call.dropout_p != 0):
        yield f"it takes no key of length 1, nor a query of length 1 with dropout: {(query, key)}"
    fails = 91900 <= cudnn <= 92500 and not 92401 <= cudnn < 92500
    if platform.torch_version >= (2, 14) and fails and query == 1 and platform.capability[0] in (10, 11):
        yield f"cuDNN {cudnn} takes no query of length 1 on {platform.capability}"
    # pytorch/pytorch#196678; whether gradients are recorded is not asked
    nan = platform.torch_version >= (2, 15) and cudnn < 92600 and platform.capability == (9, 0)
    if nan and call.query.requires_grad and not call.is_causal and key % 128 == 64:
        yield f"its query gradients may be NaN with {key} keys"
