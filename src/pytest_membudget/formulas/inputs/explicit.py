"""Models from a shape that somebody wrote down: for what has no configuration file, or none that is known."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from ..model import Attention, Experts, FeedForward, LatentAttention, Layer, Model, Norm, Patches, Stack
from .fields import Fields, nearest

REQUIRED: Final = ("hidden", "layers", "heads")
#: Every other key, with what it is where it is not written.
DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "vocab": None, "kv_heads": None, "head_dim": None, "value_dim": None, "intermediate": None,
        "gated": True, "activation": None, "norm": "rms", "norms": 2, "tied": False, "has_head": True,
        "head_bias": False, "classes": 0, "positions": 0, "rotary": True, "causal": True, "parallel": False,
        "qkv_bias": False, "output_bias": False, "mlp_bias": False, "fused_qkv": False,
        "fused_gate_up": False, "qk_norm": None, "window": None, "dropout": 0.0, "attention_dropout": 0.0,
        "embedding_dropout": 0.0, "max_positions": 0, "experts": 0, "experts_per_token": None,
        "expert_intermediate": None, "shared_intermediate": 0, "dense_layers": 0, "router_bias": False,
        "query_rank": None, "kv_rank": None, "rope_dim": None, "nope_dim": None, "image_size": None,
        "patch_size": None, "channels": 3, "prediction_layers": 0,
    }
)  # fmt: skip
#: What other tools call them.
_SYNONYMS: Final = MappingProxyType(
    {
        "hidden_size": "hidden", "d_model": "hidden", "dim": "hidden", "n_embd": "hidden",
        "num_hidden_layers": "layers", "num_layers": "layers", "n_layers": "layers", "n_layer": "layers",
        "num_attention_heads": "heads", "n_heads": "heads", "n_head": "heads",
        "num_key_value_heads": "kv_heads", "n_kv_heads": "kv_heads", "num_query_groups": "kv_heads",
        "intermediate_size": "intermediate", "ffn_hidden_size": "intermediate", "vocab_size": "vocab",
        "tie_word_embeddings": "tied", "num_experts": "experts", "num_local_experts": "experts",
        "num_experts_per_tok": "experts_per_token", "moe_intermediate_size": "expert_intermediate",
        "max_position_embeddings": "max_positions",
    }
)  # fmt: skip


def read_shape(shape: Mapping[str, object], *, name: str = "explicit shape", where: str = "model") -> Model:
    """The model of ``shape``: ``hidden``, ``layers``, ``heads``, and whichever keys of ``DEFAULTS`` differ.

    ``vocab`` may be left out only with ``image_size`` and ``patch_size``; ``intermediate`` only where every
    layer has experts. ``dense_layers`` are the first ones, before those with experts. ``kv_rank``,
    ``rope_dim`` and ``nope_dim`` make latent attention, with ``value_dim`` and, mostly, ``query_rank``.

    Raises ``UsageMistake`` for an unknown key, with the nearest right one, a missing one, a wrong value.
    """
    fields = Fields(shape, DEFAULTS, where)
    _check_keys(fields, shape)
    layers = fields.size("layers")
    patches = _patches(fields)
    vocab = fields.optional_size("vocab") or 0
    if not vocab and patches is None:
        raise fields.mistake(
            "vocab is missing; write the rows of the token embedding, or image_size and patch_size"
        )
    norm = _norm(fields)
    learned = fields.size("positions", least=0) or (patches.count + 1 if patches else 0)
    classes = fields.size("classes", least=0)
    return Model(
        name=name,
        architecture="explicit",
        vocab=vocab,
        decoder=Stack(
            _groups(fields, layers, norm), fields.size("hidden"), fields.flag("causal"), final_norm=norm
        ),
        tied=fields.flag("tied"),
        has_head=fields.flag("has_head") and bool(vocab or classes),
        head_bias=fields.flag("head_bias"),
        classes=classes,
        positions=learned,
        max_positions=fields.size("max_positions", least=0) or learned,
        embedding_dropout=fields.probability("embedding_dropout"),
        patches=patches,
        prediction_layers=fields.size("prediction_layers", least=0),
    )


def _check_keys(fields: Fields, shape: Mapping[str, object]) -> None:
    known = (*REQUIRED, *DEFAULTS)
    for key in shape:
        if key in known:
            continue
        hint = f" Did you mean {_SYNONYMS[key]!r}?" if key in _SYNONYMS else nearest(key, known)
        raise fields.mistake(f"{key} is not known.{hint} Known: {', '.join(known)}")
    missing = [key for key in REQUIRED if key not in fields]
    if missing:
        raise fields.mistake(
            f"{' and '.join(missing)} is missing; a shape needs at least {', '.join(REQUIRED)}"
        )


def _norm(fields: Fields) -> Norm:
    kind = fields.text("norm")
    if kind not in ("rms", "layer"):
        raise fields.wrong("norm", "rms or layer")
    return Norm("layer", bias=True) if kind == "layer" else Norm()


def _patches(fields: Fields) -> Patches | None:
    image, patch = fields.optional_size("image_size"), fields.optional_size("patch_size")
    if image is None and patch is None:
        return None
    if image is None or patch is None or patch > image:
        raise fields.mistake(
            f"image_size={image} and patch_size={patch} go together, the patch no larger; write both"
        )
    return Patches(image, patch, fields.size("channels"))


def _attention(fields: Fields) -> Attention:
    heads = fields.size("heads")
    latent = _latent(fields)
    kv_heads = fields.optional_size("kv_heads") or heads
    if heads % kv_heads:
        raise fields.wrong("kv_heads", f"a number that divides heads={heads}")
    width = latent.rope_dim + latent.nope_dim if latent else _head_dim(fields, heads)
    rotary = width if fields.flag("rotary") and not fields.size("positions", least=0) else 0
    return Attention(
        heads,
        heads if latent else kv_heads,
        width,
        value_dim=fields.optional_size("value_dim"),
        qkv_bias=fields.flag("qkv_bias"),
        output_bias=fields.flag("output_bias"),
        fused_qkv=fields.flag("fused_qkv"),
        qk_norm=_qk_norm(fields),
        latent=latent,
        rotary_dim=latent.rope_dim if latent else rotary,
        window=fields.optional_size("window"),
        dropout=fields.probability("attention_dropout"),
    )


def _head_dim(fields: Fields, heads: int) -> int:
    given, hidden = fields.optional_size("head_dim"), fields.size("hidden")
    if given is None and hidden % heads:
        raise fields.mistake(f"hidden={hidden} is not a multiple of heads={heads}; write head_dim")
    return given or hidden // heads


def _qk_norm(fields: Fields) -> Literal["head", "projection"] | None:
    value = fields.raw("qk_norm")
    if value is None or value == "head" or value == "projection":
        return value
    raise fields.wrong("qk_norm", "head, projection or null")


def _latent(fields: Fields) -> LatentAttention | None:
    keys = ("kv_rank", "rope_dim", "nope_dim")
    written = [key for key in keys if key in fields]
    if not written and "query_rank" not in fields:
        return None
    if len(written) < len(keys):
        lacking = [key for key in keys if key not in written]
        raise fields.mistake(f"latent attention lacks {' and '.join(lacking)}; write {', '.join(keys)}")
    return LatentAttention(
        query_rank=fields.optional_size("query_rank"),
        kv_rank=fields.size("kv_rank"),
        rope_dim=fields.size("rope_dim"),
        nope_dim=fields.size("nope_dim"),
    )


def _activation(fields: Fields) -> str:
    usual = "silu" if fields.flag("gated") else "gelu"
    return usual if fields.raw("activation") is None else fields.text("activation")


def _groups(fields: Fields, layers: int, norm: Norm) -> tuple[tuple[Layer, int], ...]:
    count = fields.size("experts", least=0)
    dense = fields.size("dense_layers", least=0) if count else layers
    if dense > layers:
        raise fields.wrong("dense_layers", f"at most layers={layers}")
    made: list[tuple[Layer, int]] = []
    if dense:
        made.append((_layer(fields, _feed_forward(fields), norm), dense))
    if layers > dense:
        made.append((_layer(fields, _experts(fields, count), norm), layers - dense))
    return tuple(made)


def _layer(fields: Fields, block: FeedForward | Experts, norm: Norm) -> Layer:
    return Layer(
        _attention(fields),
        block,
        norm,
        norms=fields.size("norms"),
        is_parallel=fields.flag("parallel"),
        has_post_norms=fields.size("norms") == 4,
        dropout=fields.probability("dropout"),
    )


def _feed_forward(fields: Fields) -> FeedForward:
    if "intermediate" not in fields:
        raise fields.mistake("intermediate is missing; write the width of the feed-forward block")
    return FeedForward(
        fields.size("intermediate"),
        fields.flag("gated"),
        _activation(fields),
        fields.flag("mlp_bias"),
        fields.flag("fused_gate_up"),
    )


def _experts(fields: Fields, count: int) -> Experts:
    for key in ("experts_per_token", "expert_intermediate"):
        if key not in fields:
            raise fields.mistake(f"{key} is missing; experts need experts_per_token and expert_intermediate")
    chosen = fields.size("experts_per_token")
    if chosen > count:
        raise fields.wrong("experts_per_token", f"at most experts={count}")
    return Experts(
        count,
        chosen,
        fields.size("expert_intermediate"),
        shared_intermediate=fields.size("shared_intermediate", least=0),
        router_bias=fields.flag("router_bias"),
        gated=fields.flag("gated"),
        activation=_activation(fields),
    )
