"""The core of Megatron-core's attention as operators: unfused, flash, and recomputed on its own.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553 (megatron/core/transformer/
dot_product_attention.py, megatron/core/fusions/fused_softmax.py) and NVIDIA/TransformerEngine
d0067d0da6cb01811b8072a7d304f0e00344ce2b
(transformer_engine/pytorch/attention/dot_product_attention/backends.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..tape import Operator, Tape, Tensor, backward, forward
from .megatron_sizes import MegatronSizes


@dataclass(frozen=True, slots=True)
class Core:
    """What the core of attention reads on one rank."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    dropout: float
    has_padding: bool
    """Tokens of padding are masked (BERT), not later ones."""
    names: tuple[str, str, str]
    """Of the queries', keys' and values' tensors."""


def core_operators(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """From queries, keys and values to ``context``, by the kernel that runs."""
    if not sizes.has_te or sizes.options.attention_backend == "unfused":
        yield from _unfused(sizes, core)
    else:
        yield from _flash(sizes, core)


def _unfused(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """Scores, softmax and dropout, each of sequence by sequence: the ``5*a*s*s*b`` of Korthikanti et al."""
    q, k, v = core.names
    heads = sizes.micro_batch * core.heads
    squares = (heads, sizes.sequence, sizes.sequence * sizes.job.degrees.context_parallel_degree)
    if core.kv_heads != core.heads:  # repeat_interleave: every query head gets its own
        for name, wide in ((k, core.head_dim), (v, core.value_dim)):
            made = sizes.of(f"{name}_repeated", sizes.tokens, core.heads, wide)
            yield Operator(f"repeat_{name}", (name,), (made,))
        k, v = f"{k}_repeated", f"{v}_repeated"
    yield Operator("scores", (q, k), (sizes.of("scores", *squares, formula="b*a*s*s*2"),), saves=(q, k))
    yield from _softmax(sizes, squares)
    read = "probabilities"
    if core.has_padding and sizes.has_te:
        # the padded rows' own mask, made in each layer (get_full_mask), which masked_fill saves
        mask = sizes.of("padding_mask", sizes.micro_batch, *squares[1:], formula="b*s*s", number_type="bool")
        filled = sizes.of("without_padding", *squares, formula="b*a*s*s*2")
        yield Operator("fill_padding", (read,), (filled,), keeps=(mask,))
        read = filled.name
    if core.dropout:
        made = sizes.of("dropped", *squares, formula="b*a*s*s*2")
        mask = sizes.of("attention_mask", *squares, formula="b*a*s*s", number_type="bool")
        yield Operator("attention_dropout", (read,), (made,), keeps=(mask,))
        read = "dropped"
    by_head = sizes.of("context_by_head", heads, sizes.sequence, core.value_dim)
    yield Operator("weigh", (read, v), (by_head,), saves=(read, v))
    yield Operator("join_heads", ("context_by_head",), (replace(by_head, name="context"),))


def _softmax(sizes: MegatronSizes, squares: tuple[int, ...]) -> Iterator[Operator]:
    """The fused kernel saves its result in the compute type; torch's softmax in fp32 saves fp32."""
    options = sizes.options
    in_fp32 = options.attention_softmax_in_fp32 and sizes.compute != "fp32"
    probabilities = sizes.of("probabilities", *squares, formula="b*a*s*s*2")
    if sizes.has_te or options.masked_softmax_fusion:
        yield Operator("softmax", ("scores",), (probabilities,), saves=("probabilities",))
        return
    # torch's backward multiplies result and gradient first (softmax_backward_cuda_out, SoftMax.cu)
    if not in_fp32:
        product = probabilities.bytes
        yield Operator(
            "softmax", ("scores",), (probabilities,), saves=("probabilities",), backward_scratch_bytes=product
        )
        return
    wide = sizes.of("softmax_fp32", *squares, formula="b*a*s*s*4", number_type="fp32")
    yield Operator("scores_to_fp32", ("scores",), (replace(wide, name="scores_fp32"),))
    yield Operator(
        "softmax", ("scores_fp32",), (wide,), saves=("softmax_fp32",), backward_scratch_bytes=wide.bytes
    )
    yield Operator("softmax_to_16_bits", ("softmax_fp32",), (probabilities,))


def _flash(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """Flash attention (``transformer_engine`` FlashAttention) or cuDNN's fused one.

    flash-attn reads ``b s h d``: with more than one sequence, queries, keys and values are copied into that
    order, its output back from it, and both outputs stay. cuDNN's kernel takes Megatron's own order.
    """
    reads: tuple[str, ...] = core.names
    copies = sizes.options.attention_backend == "flash" and sizes.micro_batch > 1
    dims = ((core.heads, core.head_dim), (core.kv_heads, core.head_dim), (core.kv_heads, core.value_dim))
    if copies:
        for name, wide in zip(reads, dims, strict=True):
            yield Operator(f"order_{name}", (name,), (sizes.of(f"{name}_bshd", sizes.tokens, *wide),))
        reads = tuple(f"{name}_bshd" for name in reads)
    made = "context_bshd" if copies else "context"
    out = sizes.of(made, sizes.tokens, core.heads, core.value_dim, formula="s*b*h/t*2")
    yield Operator(
        "flash",
        reads,
        (out,),
        saves=(*reads, made),
        keeps=(sizes.of("log_sum_exp", sizes.tokens, core.heads, number_type="fp32"),),
        backward_kernel_bytes=sizes.bytes(sizes.tokens, core.heads, core.head_dim, number_type="fp32"),
    )
    if copies:
        yield Operator("order_context", ("context_bshd",), (replace(out, name="context"),))


def recomputed_core(sizes: MegatronSizes, core: Core) -> Operator:
    """Selective recompute: queries, keys and values stay, all else is made again in backward."""
    inner = Tape(
        tuple(Tensor(name, 0) for name in core.names), tuple(core_operators(sizes, core)), ("context",)
    )
    out = sizes.of("context", sizes.tokens, core.heads, core.value_dim, formula="s*b*h/t*2")
    inside = forward(inner, saves=False).peak_bytes - out.bytes
    return Operator(
        "core_attention",
        core.names,
        (out,),
        saves=core.names,
        forward_scratch_bytes=max(0, inside),
        backward_scratch_bytes=backward(inner, "freed").peak_bytes,
    )
