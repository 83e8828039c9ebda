"""Megatron-core's mixture of experts as operators: router, dispatch, experts, combination, shared experts.

Tokens are taken to be spread evenly over experts, as load balancing wants it; a real router is less even.
Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553: megatron/core/transformer/moe/
{moe_layer,router,token_dispatcher,experts,shared_experts,moe_utils}.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..model import Experts, FeedForward
from ..tape import Operator, Tensor
from .megatron_linears import column_linear, gating, row_linear
from .megatron_sizes import MegatronSizes


@dataclass(frozen=True, slots=True)
class Spread:
    """How tokens and experts lie on the ranks."""

    gathered: int
    """Rows of all ranks that share the experts together."""
    chosen: int
    """Rows that one rank's experts work on: each token as often as it has experts here."""
    local: int
    """Experts of a rank."""
    tensor: int
    """Ranks that split each expert."""
    parts: int
    """Ranks of the group that exchanges tokens."""


def spread(sizes: MegatronSizes, block: Experts) -> Spread:
    """Of the experts of ``block``."""
    degrees = sizes.job.degrees
    tensor = degrees.expert_tensor_parallel_degree or degrees.tensor_parallel_degree
    expert = degrees.expert_parallel_degree
    gathered = sizes.rows * tensor * expert
    return Spread(
        gathered=gathered,
        chosen=-(-gathered * block.per_token // expert),
        local=-(-block.count // expert),
        tensor=tensor,
        parts=tensor * expert,
    )


def experts(sizes: MegatronSizes, block: Experts, read: str, made: str) -> Iterator[Operator]:
    """From the norm's output ``read`` to ``made``."""
    own = spread(sizes, block)
    out = sizes.of(made, sizes.rows, sizes.hidden)
    yield from _router(sizes, block, read)
    if sizes.options.token_dispatcher == "allgather":
        yield from _gather(sizes, own, read)
    else:
        yield from _exchange(sizes, block, own, read)
    yield from _expert_products(sizes, block, own)
    combined = sizes.of("combined", sizes.rows, sizes.hidden) if block.shared_intermediate else out
    yield _combine(sizes, block, own, combined)
    if block.shared_intermediate:
        yield from _shared_experts(sizes, block, read)
        yield Operator("add_shared", ("combined", "shared_out"), (out,), hands_on=True)


def _router(sizes: MegatronSizes, block: Experts, read: str) -> Iterator[Operator]:
    """Scores of all experts in the router's type, softmax or sigmoid in fp32, and the map of the chosen."""
    number_type = "fp32" if sizes.options.router_in_fp32 else sizes.compute
    scores = sizes.of("scores_of_experts", sizes.rows, block.count, number_type=number_type)
    wide = sizes.of("normalised_scores", sizes.rows, block.count, number_type="fp32")
    probabilities = sizes.of("chosen_weights", sizes.rows, block.count, number_type=number_type)
    kept = sizes.of("routing_map", sizes.rows, block.count, number_type="bool")
    casts = sizes.bytes(sizes.rows, sizes.hidden, number_type="fp32") if sizes.options.router_in_fp32 else 0
    weights = (sizes.weight("router.weight", block.count, sizes.hidden),)
    yield Operator("router", (read,), (scores,), saves=(read,), weights=weights, backward_scratch_bytes=casts)
    yield Operator(
        "choose", ("scores_of_experts",), (probabilities,), saves=("chosen_weights",), keeps=(wide, kept)
    )


def _gather(sizes: MegatronSizes, own: Spread, read: str) -> Iterator[Operator]:
    """``MoEAllGatherTokenDispatcher``: all ranks' tokens, of which each keeps its experts'; indices stay."""
    if own.parts > 1:  # into a buffer that stays; its gradient is a separate tensor
        whole = sizes.bytes(own.gathered, sizes.hidden)
        yield Operator("gather_tokens", (read,), (Tensor("gathered_tokens", whole, view_of=read),))
        read = "gathered_tokens"
    indices = sizes.of("token_indices", own.chosen, number_type="int64")
    yield Operator(
        "permute",
        (read,),
        (sizes.of("expert_tokens", own.chosen, sizes.hidden, formula="s*b*k/ep*h*2"),),
        keeps=(indices, sizes.of("local_map", own.gathered, own.local, number_type="bool")),
    )


def _exchange(sizes: MegatronSizes, block: Experts, own: Spread, read: str) -> Iterator[Operator]:
    """``MoEAlltoAllTokenDispatcher``: tokens in experts' order, sent, gathered over TP, sorted once more."""
    rows = sizes.rows * block.per_token
    kept = sizes.of("token_indices", rows, number_type="int64")
    yield Operator("permute", (read,), (sizes.of("permuted", rows, sizes.hidden),), keeps=(kept,))
    read = "permuted"
    if own.parts > own.tensor:
        yield Operator("send", (read,), (sizes.of("received", rows, sizes.hidden),))
        read = "received"
    if own.tensor > 1:
        yield Operator("gather_tokens", (read,), (sizes.of("gathered_tokens", own.chosen, sizes.hidden),))
        read = "gathered_tokens"
    tokens = sizes.of("expert_tokens", own.chosen, sizes.hidden, formula="s*b*k*h*2")
    if own.local > 1:
        yield Operator("sort_by_expert", (read,), (tokens,))
    else:
        yield Operator(
            "as_sorted", (read,), (Tensor("expert_tokens", tokens.bytes, view_of=read),), hands_on=True
        )


def _expert_products(sizes: MegatronSizes, block: Experts, own: Spread) -> Iterator[Operator]:
    """All experts of the rank at once: one kernel or many, their tensors together are as large."""
    width = -(-block.intermediate // own.tensor)
    up = width * (2 if block.gated else 1)
    saves, keeps = sizes.saved_input("experts.fc1", "expert_tokens", own.chosen, sizes.hidden)
    yield Operator(
        "experts.fc1",
        ("expert_tokens",),
        (sizes.of("experts.up", own.chosen, up, formula="s*b*k*f*2"),),
        saves=saves,
        keeps=keeps,
        weights=(sizes.weight("experts.fc1.weight", own.local, up, sizes.hidden),),
    )
    yield from _weighted_activation(sizes, block, own.chosen, width)
    saves, keeps = sizes.saved_input("experts.fc2", "experts.active", own.chosen, width)
    joins = 0 if sizes.options.grouped_gemm or own.local == 1 else sizes.bytes(own.chosen, sizes.hidden)
    yield Operator(
        "experts.fc2",
        ("experts.active",),
        (sizes.of("experts.out", own.chosen, sizes.hidden),),
        saves=() if recomputed(sizes) else saves,
        keeps=() if recomputed(sizes) else keeps,
        weights=(sizes.weight("experts.fc2.weight", own.local, sizes.hidden, width),),
        forward_scratch_bytes=joins,
    )


def recomputed(sizes: MegatronSizes) -> bool:
    """``moe_act`` is among the recomputed modules: the activation's output is made again in backward."""
    how = sizes.job.checkpointing
    return how.mode == "selective" and "moe_act" in how.modules


def _weighted_activation(sizes: MegatronSizes, block: Experts, rows: int, width: int) -> Iterator[Operator]:
    """The activation times the token's weight for the expert.

    The fused kernel (``weighted_bias_swiglu_impl``, gated alone) saves its input; without it the product
    saves the activation too, and in torch's operators a gated activation each factor.
    """
    active = sizes.of("experts.active", rows, width, formula="s*b*k*f*2")
    if block.gated and sizes.options.bias_activation_fusion:
        yield Operator("experts.act", ("experts.up",), (active,), saves=("experts.up",))
    elif recomputed(sizes):
        inside = active.bytes * (3 if block.gated else 2)
        yield Operator(
            "experts.act",
            ("experts.up",),
            (active,),
            saves=("experts.up",),
            forward_scratch_bytes=inside,
            backward_scratch_bytes=inside,
        )
    else:
        yield from _unfused_activation(sizes, block, rows, width, active)


def _unfused_activation(
    sizes: MegatronSizes, block: Experts, rows: int, width: int, active: Tensor
) -> Iterator[Operator]:
    read = "experts.up"
    activated = sizes.of("experts.activated", rows, width)
    if block.gated:
        yield from gating("experts", read, activated)
    else:
        yield Operator("experts.gelu", (read,), (activated,), saves=(read,))
    wide = sizes.bytes(rows, width, number_type="fp32") if sizes.options.router_in_fp32 else 0
    yield Operator(
        "experts.act",
        (activated.name,),
        (active,),
        saves=(activated.name,),
        forward_scratch_bytes=wide,
        backward_scratch_bytes=wide,
    )


def _combine(sizes: MegatronSizes, block: Experts, own: Spread, out: Tensor) -> Operator:
    """Tokens back in their order, summed over their experts, and scattered to their ranks."""
    if sizes.options.token_dispatcher == "allgather":
        scratch = sizes.bytes(own.gathered, sizes.hidden) if own.parts > 1 else 0
        return Operator(
            "combine",
            ("experts.out",),
            (out,),
            forward_scratch_bytes=scratch,
            backward_scratch_bytes=scratch,
        )
    rows = sizes.bytes(sizes.rows * block.per_token, sizes.hidden)
    scratch = rows * (1 + (own.tensor > 1))
    return Operator(
        "combine", ("experts.out",), (out,), forward_scratch_bytes=scratch, backward_scratch_bytes=scratch
    )


def _shared_experts(sizes: MegatronSizes, block: Experts, read: str) -> Iterator[Operator]:
    """A separate dense block, split as dense ones are."""
    dense = FeedForward(block.shared_intermediate, block.gated, block.activation)
    width = dense.intermediate * (2 if dense.gated else 1)
    yield column_linear(sizes, "shared.fc1", read, "shared.up", width)
    active = sizes.of("shared.active", sizes.tokens, sizes.split(dense.intermediate))
    yield Operator("shared.act", ("shared.up",), (active,), saves=("shared.up",))
    yield row_linear(sizes, "shared.fc2", "shared.active", "shared_out", dense.intermediate)
