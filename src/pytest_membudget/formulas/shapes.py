"""Decoders from a shape that somebody wrote down: ``{hidden: 4096, layers: 32, heads: 32, ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import UsageMistake
from ..user_input.nodes import nearest
from .decoder import Attention, Decoder, FeedForward, Latent, Layer

#: Every key with what it is where it is not written; those without a default here are ``_REQUIRED``.
DEFAULTS: Final[Mapping[str, Any]] = {
    "hidden": 0, "layers": 0, "heads": 0, "vocab": 0, "intermediate": 0, "kv_heads": None, "head_dim": None,
    "value_dim": None, "gated": True, "norm": "rms", "norms": 2, "final_norm": True, "tied": False,
    "head_bias": False, "positions": 0, "embedding_dim": 0, "qkv_bias": False, "output_bias": False,
    "mlp_bias": False, "qk_norm": None, "sinks": False, "dropout": False, "experts": 0,
    "experts_per_token": 0, "expert_intermediate": 0, "shared_intermediate": 0, "shared_gate": False,
    "router_bias": False, "expert_bias": False, "dense_layers": 0, "expert_layers": None,
    "dense_intermediate": None, "query_rank": None, "kv_rank": None, "rope_dim": None, "nope_dim": None,
}  # fmt: skip
_REQUIRED: Final = ("hidden", "layers", "heads", "vocab")
_WORDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "norm": ("rms", "layer", "layer_without_weight"),
    "qk_norm": (None, "head", "projection", "unweighted"),
}
_LATENT: Final = ("kv_rank", "rope_dim", "nope_dim")


def read_shape(shape: Mapping[str, Any], where: str = "model.shape") -> Decoder:
    """The decoder of ``shape``: ``_REQUIRED`` keys, and those of ``DEFAULTS`` that differ.

    ``dense_layers`` are the first ones, before those with experts; ``kv_rank``, ``rope_dim`` and ``nope_dim``
    make latent attention. Raises ``UsageMistake`` for an unknown or missing key and for a wrong value.
    """
    for key, value in shape.items():
        _check(key, value, where)
    missing = [key for key in _REQUIRED if not shape.get(key)]
    if missing:
        raise UsageMistake(f"{where}: {' and '.join(missing)} is missing; a shape has {', '.join(_REQUIRED)}")
    values = {**DEFAULTS, **shape}
    attention = _attention(values, where)
    dense = _layer(values, attention, _dense(values))
    has_experts = _with_experts(values)
    if not all(has_experts) and not dense.block.intermediate:
        raise UsageMistake(f"{where}: intermediate is missing; write the width of the feed-forward block")
    sparse = _layer(values, attention, _experts(values, where)) if any(has_experts) else dense
    return Decoder(
        values["hidden"],
        tuple(sparse if is_sparse else dense for is_sparse in has_experts),
        values["vocab"],
        values["tied"],
        values["positions"],
        values["embedding_dim"],
        values["head_bias"],
        values["final_norm"],
    )


def _check(key: str, value: Any, where: str) -> None:
    if key not in DEFAULTS:
        near = nearest(key, tuple(DEFAULTS))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(DEFAULTS)}"
        raise UsageMistake(f"{where}.{key} is not known; {hint}")
    usual = DEFAULTS[key]
    if key in _WORDS:
        is_right, wanted = value in _WORDS[key], " or ".join(map(str, _WORDS[key]))
    elif key == "expert_layers":
        is_right, wanted = value is None or isinstance(value, (list, tuple)), "a list of layers' numbers"
    elif isinstance(usual, bool):
        is_right, wanted = isinstance(value, bool), "true or false"
    else:
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        is_right, wanted = is_number or (usual is None and value is None), "a whole number"
    if not is_right:
        raise UsageMistake(f"{where}.{key} is {value!r}; write {wanted}")


def _attention(values: Mapping[str, Any], where: str) -> Attention:
    heads, latent = values["heads"], _latent(values, where)
    kv_heads = heads if latent else values["kv_heads"] or heads
    if heads % kv_heads:
        raise UsageMistake(f"{where}.kv_heads is {kv_heads}; write a number that divides the {heads} heads")
    if latent is None and values["head_dim"] is None and values["hidden"] % heads:
        raise UsageMistake(f"{where}: {values['hidden']} is no multiple of {heads} heads; write head_dim")
    width = latent.nope_dim + latent.rope_dim if latent else values["head_dim"] or values["hidden"] // heads
    norm = values["qk_norm"]
    return Attention(
        heads,
        kv_heads,
        width,
        values["value_dim"] or width,
        values["qkv_bias"],
        values["output_bias"],
        norm if norm != "unweighted" else None,
        values["norm"] == "layer",
        values["sinks"],
        latent,
    )


def _latent(values: Mapping[str, Any], where: str) -> Latent | None:
    written = [key for key in _LATENT if values[key] is not None]
    if not written:
        return None
    if len(written) < len(_LATENT):
        lacking = " and ".join(key for key in _LATENT if key not in written)
        raise UsageMistake(f"{where}: latent attention lacks {lacking}")
    return Latent(values["kv_rank"], values["rope_dim"], values["nope_dim"], values["query_rank"])


def _with_experts(values: Mapping[str, Any]) -> list[bool]:
    layers, written = values["layers"], values["expert_layers"]
    if not values["experts"]:
        return [False] * layers
    return [
        number in written if written is not None else number >= values["dense_layers"]
        for number in range(layers)
    ]


def _dense(values: Mapping[str, Any]) -> FeedForward:
    width = values["dense_intermediate"] or values["intermediate"]
    return FeedForward(width, values["gated"], values["mlp_bias"])


def _experts(values: Mapping[str, Any], where: str) -> FeedForward:
    count, chosen, width = values["experts"], values["experts_per_token"], values["expert_intermediate"]
    if not chosen or not width or chosen > count:
        raise UsageMistake(
            f"{where}: {count} experts need experts_per_token (at most {count}) and expert_intermediate"
        )
    return FeedForward(
        width,
        values["gated"],
        values["expert_bias"],
        count,
        chosen,
        values["shared_intermediate"],
        values["shared_gate"],
        values["router_bias"],
        values["mlp_bias"],
    )


def _layer(values: Mapping[str, Any], attention: Attention, block: FeedForward) -> Layer:
    vectors = {"rms": 1, "layer": 2, "layer_without_weight": 0}[values["norm"]]
    return Layer(attention, block, values["norms"], vectors, values["dropout"])
