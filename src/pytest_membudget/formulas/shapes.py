"""Decoders from a shape that somebody wrote down: ``{hidden: 4096, layers: 32, heads: 32, ...}``."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

from ..errors import UsageMistake
from ..user_input.nodes import nearest
from .decoder import Decoder, Shape

#: Every key with what it is where it is not written.
_DEFAULTS: Final[Mapping[str, Any]] = {one.name: one.default for one in fields(Shape)}
_REQUIRED: Final = ("hidden", "layers", "heads", "vocab")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "norm": ("rms", "layer", "layer_without_weight"),
    "qk_norm": ("head", "projection", "unweighted"),
}
_LATENT: Final = ("kv_rank", "rope_dim", "nope_dim")


def read_shape(shape: Mapping[str, Any], where: str = "model.shape") -> Decoder:
    """The decoder of ``shape``: ``_REQUIRED`` keys, and others that differ; None is what is not written.

    ``dense_layers`` are the first ones, before those with experts; ``kv_rank``, ``rope_dim`` and ``nope_dim``
    make latent attention. Raises ``UsageMistake`` for an unknown or missing key and for a wrong value.
    """
    given = {key: value for key, value in shape.items() if value is not None}
    for key, value in given.items():
        _check(key, value, where)
    missing = [key for key in _REQUIRED if not given.get(key)]
    if missing:
        raise UsageMistake(f"{where}: {' and '.join(missing)} is missing; a shape has {', '.join(_REQUIRED)}")
    if given.get("expert_layers") is not None:
        given["expert_layers"] = tuple(given["expert_layers"])
    whole = _with_attention(Shape(**given), where)
    width = whole.dense_intermediate or whole.intermediate
    dense = replace(whole, intermediate=width, experts=0, experts_per_token=0, shared_intermediate=0)
    has_experts = _with_experts(whole, where)
    if not all(has_experts) and not width:
        raise UsageMistake(f"{where}: intermediate is missing; write the width of the feed-forward block")
    return Decoder(whole, tuple(whole if is_sparse else dense for is_sparse in has_experts))


def _check(key: str, value: Any, where: str) -> None:
    if key not in _DEFAULTS:
        near = nearest(key, tuple(_DEFAULTS))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(_DEFAULTS)}"
        raise UsageMistake(f"{where}.{key} is not known; {hint}")
    if key in _WORDS:
        is_right, wanted = value in _WORDS[key], " or ".join(_WORDS[key])
    elif key == "expert_layers":
        is_right, wanted = isinstance(value, (list, tuple)), "a list of layers' numbers"
    elif isinstance(_DEFAULTS[key], bool):
        is_right, wanted = isinstance(value, bool), "true or false"
    else:
        is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        wanted = "a whole number"
    if not is_right:
        raise UsageMistake(f"{where}.{key} is {value!r}; write {wanted}")


def _with_attention(shape: Shape, where: str) -> Shape:
    """``shape`` with the heads' sizes that it does not say."""
    lacking = [key for key in _LATENT if not getattr(shape, key)]
    if 0 < len(lacking) < len(_LATENT):
        raise UsageMistake(f"{where}: latent attention lacks {' and '.join(lacking)}")
    heads = shape.heads
    kv_heads = heads if shape.kv_rank else shape.kv_heads or heads
    if heads % kv_heads:
        raise UsageMistake(f"{where}.kv_heads is {kv_heads}; write a number that divides the {heads} heads")
    if not shape.kv_rank and not shape.head_dim and shape.hidden % heads:
        raise UsageMistake(f"{where}: {shape.hidden} is no multiple of {heads} heads; write head_dim")
    width = shape.nope_dim + shape.rope_dim if shape.kv_rank else shape.head_dim or shape.hidden // heads
    return replace(shape, kv_heads=kv_heads, head_dim=width, value_dim=shape.value_dim or width)


def _with_experts(shape: Shape, where: str) -> list[bool]:
    """For each layer whether it has experts."""
    count, chosen, written = shape.experts, shape.experts_per_token, shape.expert_layers
    if not count:
        return [False] * shape.layers
    sparse = written if written is not None else range(shape.dense_layers, shape.layers)
    found = [number in sparse for number in range(shape.layers)]
    if any(found) and (not chosen or not shape.expert_intermediate or chosen > count):
        raise UsageMistake(
            f"{where}: {count} experts need experts_per_token (at most {count}) and expert_intermediate"
        )
    return found
