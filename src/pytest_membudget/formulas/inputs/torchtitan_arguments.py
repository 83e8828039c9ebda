"""Llama models as torchtitan writes them: by flavour, or by their shape's own words.

Flavours and the rule of the feed-forward width: pytorch/torchtitan b5bcd76c66d0acb1a08b176d9639425bc55e0b2a,
torchtitan/models/llama3/__init__.py and models/common/feed_forward.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Attention, FeedForward, Layer, Model, Stack
from .fields import Fields, nearest

_COMMON: Final = {"vocab_size": 128256, "n_kv_heads": 8}
LLAMA3_FLAVORS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "debugmodel": {"dim": 256, "n_layers": 6, "n_heads": 16, "vocab_size": 2048, "multiple_of": 256},
        "1B": {
            **_COMMON,
            "dim": 2048,
            "n_layers": 16,
            "n_heads": 32,
            "ffn_dim_multiplier": 1.5,
            "multiple_of": 1024,
            "enable_weight_tying": True,
        },
        "3B": {
            **_COMMON,
            "dim": 3072,
            "n_layers": 28,
            "n_heads": 24,
            "ffn_dim_multiplier": 1.0,
            "multiple_of": 1024,
            "enable_weight_tying": True,
        },
        "8B": {
            **_COMMON,
            "dim": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "ffn_dim_multiplier": 1.3,
            "multiple_of": 1024,
        },
        "70B": {
            **_COMMON,
            "dim": 8192,
            "n_layers": 80,
            "n_heads": 64,
            "ffn_dim_multiplier": 1.3,
            "multiple_of": 4096,
        },
        "405B": {
            **_COMMON,
            "dim": 16384,
            "n_layers": 126,
            "n_heads": 128,
            "ffn_dim_multiplier": 1.2,
            "multiple_of": 4096,
        },
    }
)
_DEFAULTS: Final[Mapping[str, object]] = {
    "n_kv_heads": None, "head_dim": None, "hidden_dim": None, "ffn_dim_multiplier": None, "multiple_of": 1,
    "enable_weight_tying": False, "fuse_qkv": True, "max_context_length": 131072,
}  # fmt: skip
_REQUIRED: Final = ("dim", "n_layers", "n_heads", "vocab_size")


def read_torchtitan(
    arguments: Mapping[str, object], *, name: str | None = None, where: str = "torchtitan arguments"
) -> Model:
    """A Llama 3 of torchtitan, from ``flavor`` and what differs from it, or from its shape alone.

    ``fuse_qkv``: one weight for queries, keys and values (the default of the commit that was read); false:
    three, as before. ``hidden_dim``: the feed-forward width itself, in place of its multiplier.

    Raises ``UsageMistake`` for an unknown flavour or key, a missing size, a value of the wrong kind.
    """
    flavor = arguments.get("flavor")
    shape = {} if flavor is None else _flavor(flavor, where)
    given = {**shape, **{key: value for key, value in arguments.items() if key != "flavor"}}
    fields = Fields(given, _DEFAULTS, where)
    for key in given.keys() - _DEFAULTS.keys() - set(_REQUIRED):
        known = (*_REQUIRED, *_DEFAULTS)
        raise fields.mistake(f"{key} is not known.{nearest(key, known)} Known: flavor, {', '.join(known)}")
    return _model(fields, name or (f"llama3 {flavor}" if flavor else "llama3"))


def ffn_width(dim: int, *, multiple_of: int = 1, ffn_dim_multiplier: float | None = None) -> int:
    """Two thirds of four times ``dim``, times the multiplier, up to a multiple (torchtitan's rule)."""
    width = int(2 * 4 * dim / 3)
    if ffn_dim_multiplier is not None:
        width = int(ffn_dim_multiplier * width)
    return -(-width // multiple_of) * multiple_of


def _flavor(flavor: object, where: str) -> Mapping[str, object]:
    if not isinstance(flavor, str) or flavor not in LLAMA3_FLAVORS:
        raise Fields({}, {}, where).mistake(
            f"flavor={flavor!r} is not known; write one of {', '.join(LLAMA3_FLAVORS)}"
        )
    return LLAMA3_FLAVORS[flavor]


def _model(fields: Fields, name: str) -> Model:
    dim, heads = fields.size("dim"), fields.size("n_heads")
    width = fields.optional_size("head_dim")
    if width is None and dim % heads:
        raise fields.mistake(
            f"dim={dim} is not a multiple of n_heads={heads}; write one that is, or head_dim"
        )
    width = width or dim // heads
    kv_heads = fields.optional_size("n_kv_heads") or heads
    if heads % kv_heads:
        raise fields.wrong("n_kv_heads", f"a number that divides n_heads={heads}")
    fused = fields.flag("fuse_qkv")
    attention = Attention(heads, kv_heads, width, fused_qkv=fused, rotary_dim=width)
    layer = Layer(attention, FeedForward(_hidden_dim(fields, dim)))
    return Model(
        name=name,
        architecture="torchtitan",
        vocab=fields.size("vocab_size"),
        decoder=Stack(((layer, fields.size("n_layers")),), dim),
        tied=fields.flag("enable_weight_tying"),
        max_positions=fields.size("max_context_length"),
    )


def _hidden_dim(fields: Fields, dim: int) -> int:
    given, factor = fields.optional_size("hidden_dim"), fields.raw("ffn_dim_multiplier")
    if given is not None:
        return given
    if factor is not None and (
        isinstance(factor, bool) or not isinstance(factor, int | float) or factor <= 0
    ):
        raise fields.wrong("ffn_dim_multiplier", "a number above 0")
    return ffn_width(dim, multiple_of=fields.size("multiple_of"), ffn_dim_multiplier=factor)
