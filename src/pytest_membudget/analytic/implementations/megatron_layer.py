"""One Megatron-core transformer layer as a tape, and how recomputation changes it.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553: megatron/core/transformer/transformer_layer.py,
mlp.py, megatron/core/fusions/fused_bias_gelu.py, fused_bias_swiglu.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..model import Experts, FeedForward, Layer
from ..tape import Operator, Tape, Tensor, backward, forward
from .megatron_attention import attention, column_linear, dropout_add, norm, row_linear
from .megatron_experts import experts
from .megatron_sizes import MegatronSizes


def layer_tape(sizes: MegatronSizes, layer: Layer) -> Tape:
    """One layer, from ``x`` to ``y``: norms before each block, as Megatron-core has them."""
    operators = (
        *attention(sizes, layer),
        *dropout_add(sizes, "attention_add", "attention_out", "x", "middle", layer.dropout),
        *_second_block(sizes, layer),
        *dropout_add(sizes, "mlp_add", "mlp_out", "middle", "y", layer.dropout),
    )
    operators = _without_norm_outputs(sizes, operators)
    return Tape((sizes.of("x", sizes.rows, sizes.hidden, formula="s*b*h*2"),), operators, ("y",))


def _second_block(sizes: MegatronSizes, layer: Layer) -> Iterator[Operator]:
    yield norm(sizes, layer.norm, "mlp_norm", "middle", "mlp_normed")
    if isinstance(layer.feed_forward, Experts):
        yield from experts(sizes, layer.feed_forward, "mlp_normed", "mlp_out")
        return
    inside = tuple(feed_forward(sizes, layer.feed_forward, "mlp", "mlp_normed", "mlp_out"))
    if "mlp" in _recomputed(sizes):
        yield as_one(sizes, "mlp", inside, "mlp_normed", "mlp_out", sizes.rows)
    else:
        yield from inside


def feed_forward(
    sizes: MegatronSizes, block: FeedForward, name: str, read: str, made: str
) -> Iterator[Operator]:
    """Two products with an activation between them.

    The fused activations (``bias_gelu_impl``, ``bias_swiglu_impl``) save their input alone; torch's own gelu
    does too, behind a sum with the bias where there is one.
    """
    width = block.intermediate * (2 if block.gated else 1)
    yield column_linear(sizes, f"{name}.fc1", read, f"{name}.up", width)
    yield from activation(sizes, block, name, sizes.tokens, sizes.split(block.intermediate))
    yield row_linear(sizes, f"{name}.fc2", f"{name}.active", made, block.intermediate)


def activation(
    sizes: MegatronSizes, block: FeedForward, name: str, rows: int, width: int
) -> Iterator[Operator]:
    """From ``NAME.up`` to ``NAME.active``."""
    up, active = f"{name}.up", sizes.of(f"{name}.active", rows, width, formula="s*b*f/t*2")
    read = up
    if sizes.options.bias_activation_fusion:
        yield Operator(f"{name}.act", (up,), (active,), saves=(up,))
        return
    if block.bias:
        biased = sizes.of(f"{name}.biased", rows, width * (2 if block.gated else 1))
        yield Operator(f"{name}.bias", (up,), (biased,))
        read = biased.name
    if not block.gated:
        yield Operator(f"{name}.act", (read,), (active,), saves=(read,))
        return
    # torch.chunk, silu of one half, times the other: each operator saves what it reads
    halves = tuple(Tensor(f"{name}.{half}", active.bytes, view_of=read) for half in ("gate", "linear"))
    squashed = replace(active, name=f"{name}.squashed")
    yield Operator(f"{name}.halves", (read,), halves)
    yield Operator(f"{name}.squash", (halves[0].name,), (squashed,), saves=(halves[0].name,))
    both = (squashed.name, halves[1].name)
    yield Operator(f"{name}.act", both, (active,), saves=both)


def as_one(
    sizes: MegatronSizes, name: str, inside: tuple[Operator, ...], read: str, made: str, rows: int
) -> Operator:
    """A checkpointed part: it keeps what it reads, the rest is made again in backward."""
    inner = Tape((Tensor(read, 0),), inside, (made,))
    out = sizes.of(made, rows, sizes.hidden)
    return Operator(
        name,
        (read,),
        (out,),
        saves=(read,),
        weights=tuple(weight for operator in inside for weight in operator.weights),
        forward_scratch_bytes=max(0, forward(inner, saves=False).peak_bytes - out.bytes),
        backward_scratch_bytes=backward(inner, "freed").peak_bytes,
    )


def _recomputed(sizes: MegatronSizes) -> tuple[str, ...]:
    how = sizes.job.checkpointing
    return how.modules if how.mode == "selective" else ()


def _without_norm_outputs(sizes: MegatronSizes, operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """``recompute_modules`` with ``layernorm``: the norms' outputs go after forward and are made again."""
    if "layernorm" not in _recomputed(sizes):
        return operators
    outputs = {"normed", "mlp_normed"}
    again = sizes.bytes(sizes.rows, sizes.hidden)
    return tuple(
        replace(
            operator,
            saves=tuple(name for name in operator.saves if name not in outputs),
            backward_scratch_bytes=operator.backward_scratch_bytes + again,
        )
        if outputs & set(operator.saves)
        else operator
        for operator in operators
    )
