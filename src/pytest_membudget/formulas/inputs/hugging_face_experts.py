"""Mixtral, Qwen2-MoE and Qwen3-MoE, from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Experts, Layer, Model
from .fields import Fields
from .hugging_face_decoders import (
    NORM_IGNORED,
    RMS,
    attention_of,
    feed_forward_of,
    sliding_window,
    usual_defaults,
)
from .hugging_face_family import GENERIC_TASKS, Family, Head, decoder, grouped, layer_windows


def experts_per_token(fields: Fields, count: int) -> int:
    """How many of ``count`` experts a token is sent to."""
    chosen = fields.size("num_experts_per_tok")
    if chosen > count:
        raise fields.wrong("num_experts_per_tok", f"at most {count}, the number of experts")
    return chosen


def _mixtral(fields: Fields, head: Head) -> Model:
    count = fields.size("num_local_experts")
    attention = attention_of(fields, window=fields.optional_size("sliding_window"))
    experts = Experts(
        count,
        experts_per_token(fields, count),
        fields.size("intermediate_size"),
        activation=fields.text("hidden_act"),
    )
    groups = ((Layer(attention, experts), fields.size("num_hidden_layers")),)
    return decoder(fields, head, groups, norm=RMS)


def _qwen_moe(fields: Fields, head: Head) -> Model:
    """Qwen2-MoE has shared experts behind a gate; Qwen3-MoE none, but norms of queries and keys."""
    is_third = head.architecture.startswith("Qwen3")
    layers, window = fields.size("num_hidden_layers"), sliding_window(fields)
    bias = fields.flag("attention_bias" if is_third else "qkv_bias")

    def make(variant: tuple[int | None, bool]) -> Layer:
        attention = attention_of(
            fields,
            qkv_bias=bias,
            output_bias=bias and is_third,
            window=variant[0],
            qk_norm="head" if is_third else None,
        )
        return Layer(attention, _qwen_experts(fields, is_third) if variant[1] else feed_forward_of(fields))

    if is_third:
        windows: list[int | None] = [window] * layers
    else:
        below = fields.size("max_window_layers", least=0)
        windows = layer_windows(fields, layers, lambda number: number % 2 == 0 and number < below, window)
    variants = list(zip(windows, _qwen_sparse(fields, layers), strict=True))
    return decoder(fields, head, grouped(variants, make), norm=RMS)


def _qwen_sparse(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts."""
    dense, step = set(fields.sizes("mlp_only_layers") or ()), fields.size("decoder_sparse_step")
    has_experts = fields.size("num_experts", least=0) > 0
    return [has_experts and number not in dense and (number + 1) % step == 0 for number in range(layers)]


def _qwen_experts(fields: Fields, is_third: bool) -> Experts:
    count = fields.size("num_experts")
    return Experts(
        count,
        experts_per_token(fields, count),
        fields.size("moe_intermediate_size"),
        shared_intermediate=0 if is_third else fields.size("shared_expert_intermediate_size"),
        shared_gate=not is_third,
        activation=fields.text("hidden_act"),
    )


_QWEN_DEFAULTS: Final = usual_defaults(
    vocab_size=151936, hidden_size=2048, num_hidden_layers=24, max_position_embeddings=32768,
    use_sliding_window=False, sliding_window=4096, decoder_sparse_step=1, mlp_only_layers=None,
)  # fmt: skip
ROUTER_IGNORED: Final = NORM_IGNORED | {"output_router_logits"}
LOSS_IGNORED: Final = ROUTER_IGNORED | {"router_aux_loss_coef"}
# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "mixtral": Family(
            "Mixtral", usual_defaults(vocab_size=32000, hidden_size=4096, intermediate_size=14336,
            num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=None,
            max_position_embeddings=131072, sliding_window=None, num_experts_per_tok=2, num_local_experts=8),
            LOSS_IGNORED | {"router_jitter_noise"}, _mixtral, GENERIC_TASKS, aliases={"num_experts":
            "num_local_experts"},
        ),
        "qwen2_moe": Family(
            "Qwen2Moe", {**_QWEN_DEFAULTS, "intermediate_size": 5632, "num_attention_heads": 16,
            "num_key_value_heads": 16, "max_window_layers": 28, "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4, "num_experts": 60, "qkv_bias":
            True, "layer_types": None},
            LOSS_IGNORED | {"norm_topk_prob"}, _qwen_moe, GENERIC_TASKS, extras={"head_dim": None},
        ),
        "qwen3_moe": Family(
            "Qwen3Moe", {**_QWEN_DEFAULTS, "intermediate_size": 6144, "num_attention_heads": 32,
            "num_key_value_heads": 4, "attention_bias": False, "moe_intermediate_size": 768,
            "num_experts_per_tok": 8, "num_experts": 128},
            LOSS_IGNORED | {"norm_topk_prob"}, _qwen_moe, GENERIC_TASKS, extras={"head_dim": None},
            legacy=frozenset({"max_window_layers"}), aliases={"num_local_experts": "num_experts"},
        ),
    }
)
# fmt: on
