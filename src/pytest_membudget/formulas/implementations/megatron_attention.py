"""Megatron-core's attention as operators: norm and projections, latent ones too, core, projection out.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553 (megatron/core/transformer/attention.py,
dot_product_attention.py, megatron/core/extensions/transformer_engine.py, megatron/core/fusions) and
NVIDIA/TransformerEngine d0067d0da6cb01811b8072a7d304f0e00344ce2b (transformer_engine/pytorch/module,
transformer_engine/pytorch/attention/dot_product_attention).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..model import Attention, Layer
from ..tape import Operator, Tensor
from .megatron_core_attention import Core, core_operators, recomputed_core
from .megatron_linears import column_linear, norm, row_linear
from .megatron_sizes import MegatronSizes


def attention(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    """From the residual stream ``x`` to the output of the projection, ``attention_out``."""
    own = layer.attention
    core = Core(
        heads=sizes.split(own.heads),
        kv_heads=sizes.split(own.kv_heads),
        head_dim=own.head_dim,
        value_dim=own.value_head_dim,
        dropout=own.dropout,
        has_padding=not sizes.job.model.decoder.is_causal,
        names=("q_normed", "k_normed", "v_normed") if _norms_heads(own) else ("q", "k", "v"),
    )
    if own.latent is not None:
        yield from _latent_projections(sizes, layer)
    else:
        yield from _projections(sizes, layer, core)
    if _norms_heads(own):
        yield from _query_key_norms(sizes, own, core)
    if "core_attn" in _recomputed(sizes):
        yield recomputed_core(sizes, core)
    else:
        yield from core_operators(sizes, core)
    yield row_linear(sizes, "projection", "context", "attention_out", own.heads * own.value_head_dim)


def _norms_heads(own: Attention) -> bool:
    return own.qk_norm is not None and own.latent is None


def _recomputed(sizes: MegatronSizes) -> tuple[str, ...]:
    how = sizes.job.checkpointing
    return how.modules if how.mode == "selective" else ()


def _projections(sizes: MegatronSizes, layer: Layer, core: Core) -> Iterator[Operator]:
    own = layer.attention
    width = (own.heads + 2 * own.kv_heads) * own.head_dim
    yield norm(sizes, layer.norm, "input_norm", "x", "normed")
    yield column_linear(sizes, "qkv", "normed", "mixed", width)
    dims = {"q": core.heads, "k": core.kv_heads, "v": core.kv_heads}
    views = tuple(
        Tensor(f"mixed_{name}", sizes.bytes(sizes.tokens, heads, core.head_dim), "s*b*h/t*2", view_of="mixed")
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
    # Transformer Engine wants one layout of all three (get_qkv_layout): where queries are a tensor of their
    # own (grouped queries, rotary positions) keys and values are copied too, and the projection's output goes
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
        yield Operator("own_v", ("v",), (sizes.of("v_normed", sizes.tokens, core.kv_heads, core.value_dim),))
    else:
        yield Operator(
            "same_v",
            ("v",),
            (Tensor("v_normed", sizes.bytes(sizes.tokens, core.kv_heads, core.value_dim), view_of="v"),),
            hands_on=True,
        )


def _latent_projections(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    """Multi-head latent attention (megatron/core/transformer/multi_latent_attention.py).

    The narrow projections are whole on every rank and work on its part of the sequence; their norms are part
    of the projections up. Queries and keys are put together from parts with and without positions, and
    copied.
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
        yield from _up(
            sizes, layer, "q_up", "q_down.out", "q_whole", latent.query_rank, own.heads * own.head_dim
        )
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
