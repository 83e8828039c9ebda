"""The sizes of the plain Llama, from whatever says them; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageMistake
from ..formulas.decoder import Decoder
from ..formulas.sources import decoder_of
from ..scenarios.job import Model


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    qkv_bias: bool = False


def shape_of(model: Model) -> Shape:
    """The shape of ``model``. Raises ``UsageMistake`` for one that is no Llama, or cannot be read."""
    decoder = decoder_of(model)
    others = _others(decoder)
    if others:
        what = " and ".join(others)
        raise UsageMistake(
            f"{model.name} has {what}, and implementation: plain is a Llama; write another one"
        )
    attention, block = decoder.layers[0].attention, decoder.layers[0].block
    return Shape(
        decoder.hidden,
        len(decoder.layers),
        attention.heads,
        attention.kv_heads,
        attention.head_dim,
        block.intermediate,
        decoder.vocab,
        decoder.tied,
        attention.qkv_bias,
    )


def _others(decoder: Decoder) -> list[str]:
    """What ``decoder`` has and a Llama has not, in words."""
    layer = decoder.layers[0]
    attention, block = layer.attention, layer.block
    found = {
        "layers of two kinds": any(one != layer for one in decoder.layers),
        "learned positions": decoder.positions,
        "a projected embedding": decoder.embedding_dim not in (0, decoder.hidden),
        "a bias on its head": decoder.head_bias,
        "no final norm": not decoder.final_norm,
        "latent attention": attention.latent,
        "norms on queries and keys": attention.qk_norm,
        "attention sinks": attention.sinks,
        "a bias on attention's output": attention.output_bias,
        "values of another width": attention.value_dim != attention.head_dim,
        "experts": block.count,
        "biases in its feed-forward block": block.bias,
        "a feed-forward block without a gate": not block.gated,
        "other norms": layer.norms != 2 or layer.norm_vectors != 1,
        "dropout": layer.dropout,
    }
    return [name for name, is_there in found.items() if is_there]
