"""Attention's core: queries, keys and values to the weighted values, by kernel.

What ``torch.nn.functional.scaled_dot_product_attention`` saves on CUDA (torch 2.13), or transformers'
``eager_attention_forward`` and torch's own math path, operator by operator.
"""

from __future__ import annotations

from typing import Final

from ...hardware.gpus import Gpu
from ..job import AttentionKernel
from ..kernels import cudnn_attention, efficient_attention, flash_attention
from ..kernels.attention_call import AttentionCall
from .core import Core
from .math_attention import math_path, product
from .operators import cast, copy, dropout, softmax, unary
from .recorder import Backward, Recorder, Value

#: What the CUDA 13 wheel of torch 2.13 on PyPI requires (``nvidia-cudnn-cu13``).
_CUDNN_VERSION: Final = 92000


def attend(
    r: Recorder, name: str, q: Value, k: Value, v: Value, core: Core, bias: Value | None = None
) -> Value:
    """The result, [b, queries, a, e], by the kernel that runs this call.

    ``bias``: a mask that trains (T5's positions), of all heads and sequences; with it ``core`` has a mask.
    """
    kernel = kernel_for(r, core, q.kind)
    kind = r.setting.autocast or q.kind
    q, k, v = (cast(r, f"{name} {letter} cast", x, kind) for letter, x in zip("qkv", (q, k, v), strict=True))
    if kernel == "unfused" or (core.has_mask and core.repeats_heads):
        k, v = _repeated(r, name, k, v, core)
    if kernel == "unfused":
        return _eager(r, name, q, k, v, core)
    if kernel == "math":
        return math_path(r, name, q, k, v, core)
    return _fused(r, name, (q, k, v), core, kernel, bias)


def _repeated(r: Recorder, name: str, k: Value, v: Value, core: Core) -> tuple[Value, Value]:
    """Keys and values once for each query head (``repeat_kv``), where heads share them."""
    if r.sizes.bytes("a") == r.sizes.bytes("g"):
        return k, v
    k = copy(r, f"{name} k repeated", k, f"b {core.keys} a d")
    v = copy(r, f"{name} v repeated", v, f"b {core.keys} a e")
    return k, v


def kernel_for(r: Recorder, core: Core, kind: str) -> AttentionKernel:
    """The job's kernel, or what runs in its place where it cannot run this call.

    The rules that matter to whole models, of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (2.13):
    flash takes no mask, no fp32, equal widths of at most 256; without ``enable_gqa`` heads are repeated
    (transformers does so where there is a mask); fp32 with shared heads is left to the math path.
    """
    setting, size = r.setting, r.sizes.bytes
    wanted = setting.attention
    half = (setting.autocast or kind) in ("bf16", "fp16")
    if core.is_eager:
        return "unfused"
    if wanted in ("math", "unfused"):
        return wanted
    same_width = size("d") == size("e")
    if wanted == "flash" and half and not core.has_mask and same_width and size("d") <= 256:
        return "flash"
    if wanted == "cudnn" and half and _cudnn_takes(setting.gpu.capability, size("d"), size("e")):
        return "cudnn"
    is_shared = size("a") != size("g")
    if is_shared and not (core.has_mask and core.repeats_heads) and same_width:
        return "math"
    alignment = 8 if half else 4
    return "efficient" if size("d") % alignment == size("e") % alignment == 0 else "math"


def _cudnn_takes(capability: tuple[int, int], width: int, value_width: int) -> bool:
    """Heads up to 256 wide on Hopper, up to 128 elsewhere; DeepSeek's 192 and 128 on data-centre cards."""
    is_full = capability == (9, 0) or capability[0] == 10
    limit = 256 if capability == (9, 0) else 128
    return max(width, value_width) <= limit or (is_full and (width, value_width) == (192, 128))


def _fused(
    r: Recorder,
    name: str,
    qkv: tuple[Value, Value, Value],
    core: Core,
    kernel: AttentionKernel,
    bias: Value | None,
) -> Value:
    setting, size = r.setting, r.sizes.bytes
    q, k, v = qkv
    has_dropout = bool(core.dropout and setting.drops)
    kv_heads = size(k.dims.split()[2])
    call = AttentionCall(
        batch=size("b"),
        heads=size("a"),
        key_heads=kv_heads,
        value_heads=kv_heads,
        queries=size(core.queries),
        keys=size(core.keys),
        width=size("d"),
        value_width=size("e"),
        element_bytes=r.bytes("1", q.kind),
        has_mask=core.has_mask,
        has_dropout=has_dropout,
    )
    rows = f"b a {core.queries}"
    if kernel == "efficient":
        rows = f"b a {-(-size(core.queries) // 32) * 32}"
    forward_bytes, parts = _kernel_bytes(call, kernel, setting.gpu)
    lies_by_heads = core.by_heads and kernel != "efficient"
    out = Value(f"{name} by heads" if lies_by_heads else name, f"b {core.queries} a e", q.kind)
    kept = [Value(f"{name} logsumexp", rows, "fp32")]
    if core.has_mask and bias is None:
        kept.append(Value(f"{name} mask", f"b {core.queries} {core.keys}", q.kind))
    masks = () if bias is None else (bias,)
    if lies_by_heads and kernel == "flash":
        parts = (*parts, r.bytes_of(out), r.bytes_of(out))  # copies
    back = Backward((q, k, v, out, *masks), tuple(kept), kernel_parts=parts)
    result = r.run(out.name, (q, k, v, *masks), out.dims, q.kind, back, kernel_bytes=forward_bytes)
    return copy(r, name, result) if lies_by_heads else result


def _kernel_bytes(call: AttentionCall, kernel: AttentionKernel, gpu: Gpu) -> tuple[int, tuple[int, ...]]:
    """What forward takes for itself, and the tensors that backward does."""
    if kernel == "flash":
        return sum(flash_attention.forward_bytes(call, gpu)), tuple(flash_attention.backward_bytes(call))
    if kernel == "efficient":
        forward, backward = efficient_attention.forward_bytes, efficient_attention.backward_bytes
        return sum(forward(call, gpu)), tuple(backward(call, gpu))
    backward_bytes = cudnn_attention.backward_bytes(call, gpu, _CUDNN_VERSION)
    return cudnn_attention.forward_bytes(call, gpu), (backward_bytes,)


def _eager(r: Recorder, name: str, q: Value, k: Value, v: Value, core: Core) -> Value:
    """Transformers' ``eager_attention_forward``: softmax in fp32, then back."""
    scores_dims = f"b a {core.queries} {core.keys}"
    scores = product(r, f"{name} scores", q, k, scores_dims)
    scores = unary(r, f"{name} scaled scores", scores)
    if core.softcap:
        scores = unary(r, f"{name} scores / cap", scores)
        scores = unary(r, f"{name} scores tanh", scores, "result")
        scores = unary(r, f"{name} scores * cap", scores)
    if core.has_mask or core.is_causal:
        scores = unary(r, f"{name} masked scores", scores)
    wide = cast(r, f"{name} scores fp32", scores, "fp32")
    weights = softmax(r, f"{name} softmax", wide)
    weights = cast(r, f"{name} weights", weights, q.kind)
    weights = dropout(r, f"{name} dropout", weights, core.dropout)
    out = product(r, f"{name} values", weights, v, f"b a {core.queries} e")
    return copy(r, name, out, f"b {core.queries} a e")
