"""The blocks of a layer from Megatron-LM's arguments, by the rules of its commit d98e8a64.

Sources: megatron/training/arguments.py, megatron/core/transformer/{attention,multi_latent_attention,mlp}.py,
megatron/core/transformer/moe/{router,experts,shared_experts}.py, megatron/core/models/gpt/gpt_layer_specs.py.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from ..model import Attention, Experts, FeedForward, LatentAttention, Norm
from .fields import Fields
from .hugging_face_family import divided

_POSITIONS: Final = ("learned_absolute", "rope", "none", "mrope", "yarn")


def norm_of(fields: Fields) -> Norm:
    """The norm of ``normalization``. Raises ``UsageMistake``."""
    kind = fields.text("normalization")
    if kind not in ("LayerNorm", "RMSNorm"):
        raise fields.wrong("normalization", "LayerNorm or RMSNorm")
    return Norm("layer", bias=True) if kind == "LayerNorm" else Norm()


def position_type(fields: Fields) -> str:
    """How tokens know their position. Raises ``UsageMistake``."""
    if fields.flag("use-rotary-position-embeddings"):
        return "rope"
    kind = fields.text("position-embedding-type")
    if kind not in _POSITIONS:
        raise fields.wrong("position-embedding-type", f"one of {', '.join(_POSITIONS)}")
    return kind


def attention_of(fields: Fields) -> Attention:
    """The attention block. Raises ``UsageMistake``."""
    heads = fields.size("num-attention-heads")
    has_bias = not fields.flag("disable-bias-linear")
    has_norms = fields.flag("qk-layernorm")
    common: dict[str, Any] = {
        "output_bias": has_bias,
        "qk_norm_kind": norm_of(fields),
        "window": _window(fields),
        "dropout": fields.probability("attention-dropout"),
        "sinks": _has_sinks(fields),
    }
    if fields.flag("multi-latent-attention"):
        return _latent(fields, heads, has_norms, common)
    width = fields.optional_size("kv-channels") or divided(fields, "hidden-size", "num-attention-heads")
    part = fields.probability("rotary-percent")
    return Attention(
        heads,
        _query_groups(fields, heads),
        width,
        qkv_bias=has_bias or fields.flag("add-qkv-bias"),
        fused_qkv=True,
        qk_norm="head" if has_norms else None,
        rotary_dim=0 if position_type(fields) in ("learned_absolute", "none") else int(width * part),
        **common,
    )


def _latent(fields: Fields, heads: int, has_norms: bool, common: dict[str, Any]) -> Attention:
    rope, nope = fields.size("qk-pos-emb-head-dim"), fields.size("qk-head-dim")
    latent = LatentAttention(
        fields.optional_size("q-lora-rank"), fields.size("kv-lora-rank"), rope, nope, has_norms=has_norms
    )
    return Attention(
        heads,
        heads,
        rope + nope,
        value_dim=fields.size("v-head-dim"),
        latent=latent,
        rotary_dim=rope,
        **common,
    )


def _query_groups(fields: Fields, heads: int) -> int:
    """Megatron reads ``num-query-groups`` only with ``group-query-attention``."""
    if not fields.flag("group-query-attention"):
        return heads
    groups = fields.size("num-query-groups")
    if heads % groups:
        raise fields.wrong("num-query-groups", f"a number that divides num-attention-heads={heads}")
    return groups


def _has_sinks(fields: Fields) -> bool:
    kind = fields.text("softmax-type")
    if kind not in ("vanilla", "off-by-one", "learnable"):
        raise fields.wrong("softmax-type", "vanilla, off-by-one or learnable")
    return kind == "learnable"


def _window(fields: Fields) -> int | None:
    """Transformer Engine's (left, right): so many tokens to the left, and the token itself."""
    value = fields.raw("window-size")
    if isinstance(value, str):
        value = [
            int(part) for part in value.strip("()[] ").split(",") if part.strip().lstrip("-").isdecimal()
        ]
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(each) is int for each in value):
        raise fields.wrong("window-size", "two whole numbers, as 127,0")
    return None if value[0] < 0 else int(value[0]) + 1


def feed_forward_of(fields: Fields) -> FeedForward:
    """The dense feed-forward block. Raises ``UsageMistake``."""
    gated, activation = _activation(fields)
    return FeedForward(
        _ffn_width(fields),
        gated,
        activation,
        bias=not fields.flag("disable-bias-linear"),
        fused_gate_up=gated,
    )


def _activation(fields: Fields) -> tuple[bool, str]:
    if fields.flag("swiglu"):
        return True, "silu"
    if fields.flag("quick-geglu"):
        return True, "quick_gelu"
    return False, "relu2" if fields.flag("squared-relu") else "gelu"


def _ffn_width(fields: Fields) -> int:
    """Four times the hidden size; with SwiGLU two thirds of it, in whole 64s."""
    given, hidden = fields.optional_size("ffn-hidden-size"), fields.size("hidden-size")
    if given is not None:
        return given
    return int((4 * hidden * 2 / 3) / 64) * 64 if fields.flag("swiglu") else 4 * hidden


def experts_of(fields: Fields) -> Experts:
    """The mixture of experts. Raises ``UsageMistake``."""
    count, chosen = fields.size("num-experts"), fields.size("moe-router-topk")
    if chosen > count:
        raise fields.wrong("moe-router-topk", f"at most num-experts={count}")
    gated, activation = _activation(fields)
    has_bias = not fields.flag("disable-bias-linear")
    shared = fields.optional_size("moe-shared-expert-intermediate-size", least=0) or 0
    if shared and has_bias:
        raise fields.mistake("moe-shared-expert-intermediate-size needs disable-bias-linear; write it too")
    return Experts(
        count,
        chosen,
        fields.optional_size("moe-ffn-hidden-size") or _ffn_width(fields),
        shared_intermediate=shared,
        shared_gate=bool(shared) and fields.flag("moe-shared-expert-gate"),
        router_bias=fields.flag("moe-router-enable-expert-bias"),
        gated=gated,
        activation=activation,
        bias=has_bias,
        router_linear_bias=has_bias,
    )


def sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts: every n-th from the first on, or as a list says."""
    if not fields.optional_size("num-experts", least=0):
        return [False] * layers
    value = fields.raw("moe-layer-freq")
    if isinstance(value, str):
        value = _pattern(fields, value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return [number % value == 0 for number in range(layers)]
    if not isinstance(value, list | tuple) or any(each not in (0, 1) for each in value):
        raise fields.wrong("moe-layer-freq", "a number, or a list of 0 and 1, as ([0]*3+[1]*13)")
    if len(value) != layers:
        raise fields.mistake(f"moe-layer-freq has {len(value)} layers, num-layers is {layers}; write as many")
    return [bool(each) for each in value]


def _pattern(fields: Fields, text: str) -> object:
    """The value of an expression of numbers, lists, ``+`` and ``*``; nothing else is evaluated."""
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError):
        raise fields.wrong("moe-layer-freq", "a number, or a list of 0 and 1, as ([0]*3+[1]*13)") from None


def _evaluated(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() as number) if 0 <= number <= 10_000:
            return number
        case ast.List(elts=parts):
            return [_evaluated(part) for part in parts]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _evaluated(left) + _evaluated(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _evaluated(left) * _evaluated(right)
    raise TypeError(ast.dump(node))
