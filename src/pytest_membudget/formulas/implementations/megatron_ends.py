"""Megatron-core's two ends: embedding with dropout, final norm with logits and the vocabulary-parallel loss.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553: megatron/core/models/common/embeddings/
language_model_embedding.py, megatron/core/tensor_parallel/layers.py and cross_entropy.py,
megatron/core/models/gpt/gpt_model.py, megatron/core/models/bert.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Norm
from ..tape import Operator, Tape, Tensor
from .megatron_linears import norm
from .megatron_sizes import MegatronSizes


def embedding_tape(sizes: MegatronSizes, *, shares_weight: bool) -> Tape:
    """Rows of the table as ``b s h``, positions added, turned to ``s b h``, dropout.

    ``shares_weight``: the table is this rank's head too.
    """
    model = sizes.job.model
    tokens = Tensor("tokens", sizes.bytes(sizes.tokens, number_type="int64"), needs_grad=False)
    whole = sizes.bytes(sizes.tokens, sizes.hidden)
    table = sizes.bytes(sizes.split(model.vocab), sizes.hidden)
    weights = [Tensor("embedding.weight", table, joins="ends" if shares_weight else None)]
    if model.positions:
        weights.append(Tensor("positions.weight", sizes.bytes(model.positions, sizes.hidden)))
    made = "embedded" if model.embedding_dropout else "x"
    operators = [
        Operator(
            "embed",
            ("tokens",),
            (sizes.of(made, sizes.rows, sizes.hidden),),
            saves=("tokens",),
            weights=tuple(weights),
            forward_scratch_bytes=whole * (2 if model.positions else 1),
            backward_scratch_bytes=whole,
        )
    ]
    if model.embedding_dropout:
        mask = sizes.of("embedding_mask", sizes.rows, sizes.hidden, formula="s*b*h", number_type="bool")
        out = sizes.of("x", sizes.rows, sizes.hidden)
        operators.append(Operator("embedding_dropout", ("embedded",), (out,), keeps=(mask,)))
    return Tape((tokens,), tuple(operators), ("x",))


def head_tape(sizes: MegatronSizes, *, shares_weight: bool) -> Tape:
    """Final norm, logits and loss; ``shares_weight``: its weight's gradient waits for the embedding's."""
    final = sizes.job.model.decoder.final_norm
    read = "x"
    operators: list[Operator] = []
    if final is not None:
        operators.append(norm(sizes, final, "final_norm", "x", "final"))
        read = "final"
    if sizes.job.model.head_hidden is not None:
        operators += _dense_before_head(sizes, sizes.job.model.head_norm, read)
        read = "head_input"
    operators += logits_and_loss(sizes, read, shares_weight=shares_weight)
    return Tape((sizes.of("x", sizes.rows, sizes.hidden, formula="s*b*h*2"),), tuple(operators), ("loss",))


def _dense_before_head(sizes: MegatronSizes, kind: Norm | None, read: str) -> Iterator[Operator]:
    """BERT's: a dense layer that is whole on every rank, erf-gelu in torch operators, a norm."""
    dense = sizes.of("dense", sizes.rows, sizes.hidden)
    weight = sizes.weight("head_dense.weight", sizes.hidden, sizes.hidden)
    yield Operator("head_dense", (read,), (dense,), saves=(read,), weights=(weight,))
    yield Operator(
        "head_gelu", ("dense",), (sizes.of("dense_active", sizes.rows, sizes.hidden),), saves=("dense",)
    )
    yield norm(sizes, kind or Norm("layer", bias=True), "head_norm", "dense_active", "head_input")


def logits_and_loss(
    sizes: MegatronSizes, read: str, *, shares_weight: bool, prefix: str = ""
) -> Iterator[Operator]:
    """Logits of this rank's part of the vocabulary in the compute type, then the loss.

    The loss makes them fp32, works in place on that copy (subtraction, exponential, division) and saves it:
    it becomes the gradient, again in place, which autograd casts to the logits' type. The fused losses
    (``cross_entropy_loss_fusion``, ``native`` and ``te``) keep an fp32 tensor of that size too.
    """
    rows, columns = sizes.tokens, sizes.split(sizes.job.model.vocab)
    logits = sizes.of(f"{prefix}logits", rows, columns, formula="s*b*v/t*2")
    yield Operator(
        logits.name,
        (read,),
        (logits,),
        saves=(read,),
        weights=(_head_weight(sizes, f"{prefix}head.weight", shares_weight=shares_weight),),
        backward_scratch_bytes=sizes.gathered(sizes.hidden),
    )
    loss = sizes.of(f"{prefix}loss", rows, number_type="fp32")
    name = f"{prefix}cross_entropy"
    softmax = sizes.of(f"{prefix}softmax_of_logits", rows, columns, formula="s*b*v/t*4", number_type="fp32")
    targets = sizes.of(f"{prefix}targets", rows, number_type="int64")
    masked = sizes.of(f"{prefix}target_mask", rows, number_type="bool")
    yield Operator(name, (logits.name,), (loss,), keeps=(softmax, targets, masked))


def _head_weight(sizes: MegatronSizes, name: str, *, shares_weight: bool) -> Tensor:
    """The gradient of the head's weight; that of a tied one waits for the embedding's."""
    made = sizes.weight(name, sizes.split(sizes.job.model.vocab), sizes.hidden)
    return Tensor(name, made.bytes, joins="waits" if shares_weight else None)
