"""Layers that predict tokens further on (multi-token prediction), between the last layer and the head.

Read in NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553:
megatron/core/transformer/multi_token_prediction.py. Each has an embedding of its tokens, two norms, a
projection from twice the width, a layer like the stack's last, a norm, and logits with a separate loss.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..tape import Operator, Tape, Tensor
from .megatron_ends import logits_and_loss
from .megatron_layer import layer_tape
from .megatron_linears import norm
from .megatron_recompute import repeated
from .megatron_sizes import MegatronSizes


def prediction_tape(sizes: MegatronSizes, *, number: int) -> Tape:
    """One such layer; ``x``, which the head reads too, is handed on."""
    model = sizes.job.model
    layer = model.decoder.groups[-1][0]
    inner = repeated(layer_tape(sizes, layer), 1, first_read="joined")
    norms = model.decoder.final_norm or layer.norm
    operators = (
        *_join(sizes, number),
        *inner.operators,
        norm(sizes, norms, "prediction.final_norm", inner.outputs[0], "prediction.final"),
        *logits_and_loss(sizes, "prediction.final", prefix="prediction.", shares_weight=False),
    )
    return Tape(
        (sizes.of("x", sizes.rows, sizes.hidden, formula="s*b*h*2"),), operators, ("x", "prediction.loss")
    )


def _join(sizes: MegatronSizes, number: int) -> Iterator[Operator]:
    """Embedding and hidden states, each with its norm, side by side, and the projection of both."""
    layer = sizes.job.model.decoder.groups[-1][0]
    embedded = sizes.of("prediction.embedded", sizes.rows, sizes.hidden)
    tokens = Tensor("prediction.tokens", sizes.bytes(sizes.tokens, number_type="int64"), needs_grad=False)
    table = sizes.weight(f"prediction{number}.embedding", sizes.split(sizes.job.model.vocab), sizes.hidden)
    yield Operator("prediction.roll", (), (tokens,))
    yield Operator("prediction.embed", (tokens.name,), (embedded,), saves=(tokens.name,), weights=(table,))
    yield norm(sizes, layer.norm, "prediction.enorm", embedded.name, "prediction.e")
    yield norm(sizes, layer.norm, "prediction.hnorm", "x", "prediction.h")
    both = sizes.of("prediction.both", sizes.rows, 2 * sizes.hidden)
    yield Operator("prediction.cat", ("prediction.e", "prediction.h"), (both,))
    whole = sizes.gathered(2 * sizes.hidden)
    yield Operator(
        "prediction.eh_proj",
        (both.name,),
        (sizes.of("joined", sizes.rows, sizes.hidden),),
        saves=(both.name,),
        weights=(sizes.weight("prediction.eh_proj.weight", sizes.split(sizes.hidden), 2 * sizes.hidden),),
        forward_scratch_bytes=whole + sizes.gathered(sizes.hidden),
        backward_scratch_bytes=2 * whole,
    )
