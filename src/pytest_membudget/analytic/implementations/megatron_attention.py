"""Megatron-core's attention as operators: norm and projections, the core in its kinds, the projection out.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553 (megatron/core/transformer/attention.py,
dot_product_attention.py, megatron/core/extensions/transformer_engine.py, megatron/core/fusions) and
NVIDIA/TransformerEngine d0067d0da6cb01811b8072a7d304f0e00344ce2b (transformer_engine/pytorch/module,
transformer_engine/pytorch/attention/dot_product_attention).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..model import Attention, Layer, Norm
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
    names: tuple[str, str, str]
    """Of the queries', keys' and values' tensors."""


def attention(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    """From the residual stream ``x`` to the output of the projection, ``attention_out``."""
    own = layer.attention
    core = Core(
        heads=sizes.split(own.heads),
        kv_heads=sizes.split(own.kv_heads),
        head_dim=own.head_dim,
        value_dim=own.value_head_dim,
        dropout=own.dropout,
        names=("q_normed", "k_normed", "v_normed") if _norms_heads(own) else ("q", "k", "v"),
    )
    if own.latent is not None:
        yield from _latent_projections(sizes, layer)
    else:
        yield from _projections(sizes, layer, core)
    if _norms_heads(own):
        yield from _query_key_norms(sizes, own, core)
    if "core_attn" in _recomputed(sizes):
        yield _recomputed_core(sizes, core)
    else:
        yield from core_operators(sizes, core)
    yield row_linear(sizes, "projection", "context", "attention_out", own.heads * own.value_head_dim)


def _norms_heads(own: Attention) -> bool:
    return own.qk_norm is not None and own.latent is None


def _recomputed(sizes: MegatronSizes) -> tuple[str, ...]:
    how = sizes.job.checkpointing
    return how.modules if how.mode == "selective" else ()


def norm(
    sizes: MegatronSizes, kind: Norm, name: str, read: str, made: str, *, rows: int | None = None
) -> Operator:
    """A layer norm (mean and 1/deviation a row, fp32) or RMS norm (the latter alone); saves what it reads."""
    count = sizes.rows if rows is None else rows
    statistics = sizes.of(f"{name}.statistics", count, 1 if kind.kind == "rms" else 2, number_type="fp32")
    return Operator(
        name,
        (read,),
        (sizes.of(made, count, sizes.hidden, formula="s*b*h*2"),),
        saves=(read,),
        keeps=(statistics,),
    )


def column_linear(
    sizes: MegatronSizes, name: str, read: str, made: str, width: int, *, narrow: int | None = None
) -> Operator:
    """A product whose outputs are split: it saves its own rows and gathers the others, again in backward."""
    inputs = sizes.hidden if narrow is None else narrow
    gathered = sizes.gathered(inputs)
    buffered = gathered if sizes.has_te else 0  # the local layers gather into a buffer that stays
    return Operator(
        name,
        (read,),
        (sizes.of(made, sizes.tokens, sizes.split(width), formula="s*b*width/t*2"),),
        saves=(read,),
        weights=(sizes.weight(f"{name}.weight", sizes.split(width), inputs),),
        forward_scratch_bytes=buffered,
        backward_scratch_bytes=buffered + gathered,
    )


def row_linear(sizes: MegatronSizes, name: str, read: str, made: str, width: int) -> Operator:
    """A product whose inputs are split; with sequence parallelism its sum is scattered over the ranks."""
    whole = sizes.gathered(sizes.hidden)
    return Operator(
        name,
        (read,),
        (sizes.of(made, sizes.rows, sizes.hidden, formula="s*b*h*2"),),
        saves=(read,),
        weights=(sizes.weight(f"{name}.weight", sizes.hidden, sizes.split(width)),),
        forward_scratch_bytes=whole,
        backward_scratch_bytes=whole,
    )


def dropout_add(
    sizes: MegatronSizes, name: str, read: str, residual: str, made: str, rate: float
) -> Iterator[Operator]:
    """Bias, dropout and residual in one compiled kernel (``bias_dropout_add_fused_train``): a mask is kept.

    The unfused operators keep the same; between them the sum with the bias is there as well.
    """
    summand = read
    if rate:
        dropped = Tensor(f"{name}.dropped", sizes.bytes(sizes.rows, sizes.hidden), view_of=read)
        mask = sizes.of(f"{name}.mask", sizes.rows, sizes.hidden, formula="s*b*h", number_type="bool")
        scratch = 0 if sizes.options.bias_dropout_fusion else 2 * dropped.bytes
        yield Operator(f"{name}.dropout", (read,), (dropped,), keeps=(mask,), forward_scratch_bytes=scratch)
        summand = dropped.name
    out = sizes.of(made, sizes.rows, sizes.hidden, formula="s*b*h*2")
    yield Operator(f"{name}.add", (residual, summand), (out,), hands_on=True)


def _projections(sizes: MegatronSizes, layer: Layer, core: Core) -> Iterator[Operator]:
    own = layer.attention
    width = (own.heads + 2 * own.kv_heads) * own.head_dim
    yield norm(sizes, layer.norm, "input_norm", "x", "normed")
    yield column_linear(sizes, "qkv", "normed", "mixed", width)
    dims = {"q": core.heads, "k": core.kv_heads, "v": core.kv_heads}
    views = tuple(
        Tensor(
            f"mixed_{name}", sizes.bytes(sizes.tokens, heads, core.head_dim), "s*b*h/t*2", view_of="mixed"
        )
        for name, heads in dims.items()
    )
    yield Operator("split", ("mixed",), views)
    if core.heads == core.kv_heads and not own.rotary_dim:
        yield Operator(
            "heads",
            tuple(view.name for view in views),
            tuple(replace(view, name=view.name[-1], view_of=view.name) for view in views),
            hands_on=True,
        )
        return
    # Transformer Engine wants one layout of all three (get_qkv_layout): where queries are a tensor of their own
    # (grouped queries, rotary positions) keys and values are copied too, and the projection's output goes
    for name, heads in dims.items():
        made = sizes.of(name, sizes.tokens, heads, core.head_dim, formula="s*b*h/t*2")
        yield Operator(f"own_{name}", (f"mixed_{name}",), (made,))


def _query_key_norms(sizes: MegatronSizes, own: Attention, core: Core) -> Iterator[Operator]:
    """Norms over each head; they copy the views that they read and save the copies."""
    for name, heads in (("q", core.heads), ("k", core.kv_heads)):
        rows = sizes.tokens * heads
        copy, made = f"{name}_copy", f"{name}_normed"
        per_row = 1 if own.qk_norm_kind.kind == "rms" else 2
        yield Operator(copy, (name,), (sizes.of(copy, rows, core.head_dim),))
        yield Operator(
            f"{name}_norm",
            (copy,),
            (sizes.of(made, rows, core.head_dim),),
            saves=(copy,),
            keeps=(sizes.of(f"{name}_norm.statistics", rows, per_row, number_type="fp32"),),
        )
    if sizes.has_te:  # one layout of all three: values are copied and the projection's output goes
        yield Operator(
            "own_v", ("v",), (sizes.of("v_normed", sizes.tokens, core.kv_heads, core.value_dim),)
        )
    else:
        yield Operator(
            "same_v",
            ("v",),
            (Tensor("v_normed", sizes.bytes(sizes.tokens, core.kv_heads, core.value_dim), view_of="v"),),
            hands_on=True,
        )


def _latent_projections(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    """Multi-head latent attention (megatron/core/transformer/multi_latent_attention.py).

    The narrow projections are whole on every rank and work on its part of the sequence; their norms are part of
    the projections up. Queries and keys are put together from parts with and without positions, and copied.
    """
    own = layer.attention
    latent = own.latent
    assert latent is not None
    heads = sizes.split(own.heads)
    yield norm(sizes, layer.norm, "input_norm", "x", "normed")
    if latent.query_rank is None:
        yield column_linear(sizes, "q_up", "normed", "q_whole", own.heads * own.head_dim)
    else:
        yield _narrow(sizes, "q_down", latent.query_rank)
        yield from _up(sizes, layer, "q_up", "q_down.out", "q_whole", latent.query_rank, own.heads * own.head_dim)
    yield _narrow(sizes, "kv_down", latent.kv_rank + latent.rope_dim)
    width = own.heads * (latent.nope_dim + own.value_head_dim)
    yield from _up(sizes, layer, "kv_up", "kv_down.out", "kv_whole", latent.kv_rank, width)
    yield Operator(
        "query_with_positions",
        ("q_whole",),
        (sizes.of("q", sizes.tokens, heads, own.head_dim),),
        backward_scratch_bytes=sizes.bytes(sizes.tokens, heads, latent.rope_dim),
    )
    yield Operator(
        "key_with_positions",
        ("kv_whole",),
        (
            sizes.of("k", sizes.tokens, heads, own.head_dim),
            sizes.of("v", sizes.tokens, heads, own.value_head_dim),
        ),
    )


def _narrow(sizes: MegatronSizes, name: str, width: int) -> Operator:
    return Operator(
        name,
        ("normed",),
        (sizes.of(f"{name}.out", sizes.rows, width),),
        saves=("normed",),
        weights=(sizes.weight(f"{name}.weight", width, sizes.hidden),),
    )


def _up(
    sizes: MegatronSizes, layer: Layer, name: str, read: str, made: str, rank: int, width: int
) -> Iterator[Operator]:
    """A narrow norm and the projection up from it."""
    per_row = 1 if layer.norm.kind == "rms" else 2
    yield Operator(
        f"{name}.norm",
        (read,),
        (sizes.of(f"{name}.normed", sizes.rows, rank),),
        saves=(read,),
        keeps=(sizes.of(f"{name}.statistics", sizes.rows, per_row, number_type="fp32"),),
    )
    yield column_linear(sizes, name, f"{name}.normed", made, width, narrow=rank)


def core_operators(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """From queries, keys and values to ``context``, by the kernel that runs."""
    if not sizes.has_te or sizes.options.attention_backend == "unfused":
        yield from _unfused(sizes, core)
    else:
        yield from _flash(sizes, core)


def _unfused(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """Scores, softmax and dropout, each a tensor of sequence by sequence (Korthikanti et al.: ``5*a*s*s*b``)."""
    q, k, v = core.names
    heads = sizes.micro_batch * core.heads
    squares = (heads, sizes.sequence, sizes.sequence * sizes.job.degrees.context_parallel_degree)
    if core.kv_heads != core.heads:  # repeat_interleave: every query head gets its own
        for name, wide in ((k, core.head_dim), (v, core.value_dim)):
            made = sizes.of(f"{name}_repeated", sizes.tokens, core.heads, wide)
            yield Operator(f"repeat_{name}", (name,), (made,))
        k, v = f"{k}_repeated", f"{v}_repeated"
    yield Operator(
        "scores", (q, k), (sizes.of("scores", *squares, formula="b*a*s*s*2"),), saves=(q, k)
    )
    yield from _softmax(sizes, squares)
    read = "probabilities"
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
    if sizes.has_te or options.masked_softmax_fusion or not in_fp32:
        yield Operator("softmax", ("scores",), (probabilities,), saves=("probabilities",))
        return
    wide = sizes.of("softmax_fp32", *squares, formula="b*a*s*s*4", number_type="fp32")
    yield Operator("scores_to_fp32", ("scores",), (replace(wide, name="scores_fp32"),))
    yield Operator("softmax", ("scores_fp32",), (wide,), saves=("softmax_fp32",))
    yield Operator("softmax_to_16_bits", ("softmax_fp32",), (probabilities,))


def _flash(sizes: MegatronSizes, core: Core) -> Iterator[Operator]:
    """Flash attention (``transformer_engine`` FlashAttention) or cuDNN's fused one.

    flash-attn reads ``b s h d``: with more than one sequence, queries, keys and values are copied into that
    order, its output back from it, and both outputs stay. cuDNN's kernel takes Megatron's own order.
    """
    reads = core.names
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


def _recomputed_core(sizes: MegatronSizes, core: Core) -> Operator:
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
