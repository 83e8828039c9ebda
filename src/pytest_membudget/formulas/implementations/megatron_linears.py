"""Pieces of Megatron-core's layers that come again and again: norms, split products, dropout with residual.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553 (megatron/core/tensor_parallel/layers.py,
megatron/core/extensions/transformer_engine.py, megatron/core/fusions/fused_bias_dropout.py) and
NVIDIA/TransformerEngine d0067d0da6cb01811b8072a7d304f0e00344ce2b (transformer_engine/pytorch/module).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Norm
from ..tape import Operator, Tensor
from .megatron_sizes import MegatronSizes


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
    saves, keeps = sizes.saved_input(name, read, sizes.rows, inputs)
    return Operator(
        name,
        (read,),
        (sizes.of(made, sizes.tokens, sizes.split(width), formula="s*b*width/t*2"),),
        saves=saves,
        keeps=keeps,
        weights=(sizes.weight(f"{name}.weight", sizes.split(width), inputs),),
        forward_scratch_bytes=buffered,
        backward_scratch_bytes=buffered + gathered,
    )


def row_linear(sizes: MegatronSizes, name: str, read: str, made: str, width: int) -> Operator:
    """A product whose inputs are split; with sequence parallelism its sum is scattered over the ranks."""
    whole = sizes.gathered(sizes.hidden)
    saves, keeps = sizes.saved_input(name, read, sizes.tokens, sizes.split(width))
    return Operator(
        name,
        (read,),
        (sizes.of(made, sizes.rows, sizes.hidden, formula="s*b*h*2"),),
        saves=saves,
        keeps=keeps,
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


def gating(name: str, read: str, made: Tensor) -> Iterator[Operator]:
    """A gated activation in torch's operators (``glu`` in megatron/core/transformer/mlp.py and
    moe/experts.py).

    One half goes through the activation, to the other ``glu_linear_offset`` is added, which makes a tensor of
    its own even where it is zero; the product saves both.
    """
    gate = Tensor(f"{name}.gate", made.bytes, view_of=read)
    linear = Tensor(f"{name}.linear", made.bytes, view_of=read)
    squashed, shifted = (
        Tensor(f"{name}.{kind}", made.bytes, made.formula) for kind in ("squashed", "shifted")
    )
    yield Operator(f"{name}.halves", (read,), (gate, linear))
    yield Operator(f"{name}.squash", (gate.name,), (squashed,), saves=(gate.name,))
    yield Operator(f"{name}.shift", (linear.name,), (shifted,), hands_on=True)
    both = (squashed.name, shifted.name)
    yield Operator(f"{name}.product", both, (made,), saves=both)
