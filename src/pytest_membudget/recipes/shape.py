"""The shape of the plain Llama, from whatever says it; imports no torch."""

from ..errors import UsageMistake
from ..formulas.decoder import Decoder, Shape
from ..formulas.sources import decoder_of
from ..scenarios.job import Model


def shape_of(model: Model) -> Shape:
    """The shape of ``model``. Raises ``UsageMistake`` for one that is no Llama, or cannot be read."""
    decoder = decoder_of(model)
    others = _others(decoder)
    if others:
        what = " and ".join(others)
        raise UsageMistake(
            f"{model.name} has {what}, and implementation: plain is a Llama; write another one"
        )
    return decoder.layers[0]


def _others(decoder: Decoder) -> list[str]:
    """What ``decoder`` has and a Llama has not, in words."""
    shape = decoder.layers[0]
    found = {
        "layers of two kinds": any(one != shape for one in decoder.layers),
        "learned positions": shape.positions,
        "a projected embedding": shape.embedding_dim not in (0, shape.hidden),
        "a bias on its head": shape.head_bias,
        "no final norm": not shape.final_norm,
        "latent attention": shape.kv_rank,
        "norms on queries and keys": shape.qk_norm not in (None, "unweighted"),
        "attention sinks": shape.sinks,
        "a bias on attention's output": shape.output_bias,
        "values of another width": shape.value_dim != shape.head_dim,
        "experts": shape.experts,
        "biases in its feed-forward block": shape.mlp_bias,
        "a feed-forward block without a gate": not shape.gated,
        "other norms": shape.norms != 2 or shape.norm != "rms",
        "dropout": shape.dropout,
    }
    return [name for name, is_there in found.items() if is_there]
