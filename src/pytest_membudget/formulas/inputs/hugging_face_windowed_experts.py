"""gpt-oss and Llama 4 (text): experts, and windows in some layers (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..model import Experts, FeedForward, Layer, Model, Norm
from .fields import Fields
from .hugging_face_decoders import RMS, attention_of, usual_defaults
from .hugging_face_experts import LOSS_IGNORED, experts_per_token
from .hugging_face_family import GENERIC_TASKS, Family, Head, decoder, grouped, layer_windows, rotary_layers


def _gpt_oss(fields: Fields, head: Head) -> Model:
    """Biases everywhere, a sink a head, and every second layer looks back a window only."""
    count, bias = fields.size("num_local_experts"), fields.flag("attention_bias")
    experts = Experts(
        count,
        experts_per_token(fields, count),
        fields.size("intermediate_size"),
        activation=fields.text("hidden_act"),
        bias=True,
        router_linear_bias=True,
    )

    def make(window: int | None) -> Layer:
        attention = attention_of(fields, qkv_bias=bias, output_bias=bias, window=window)
        return Layer(replace(attention, sinks=True), experts)

    layers, size = fields.size("num_hidden_layers"), fields.optional_size("sliding_window")
    windows = layer_windows(fields, layers, lambda number: number % 2 == 0, size)
    return decoder(fields, head, grouped(windows, make), norm=RMS)


def _llama4(fields: Fields, head: Head) -> Model:
    """Norms without weights on queries and keys, and chunks of attention, where positions turn."""
    layers, bias = fields.size("num_hidden_layers"), fields.flag("attention_bias")
    turned, has_norm = rotary_layers(fields, layers), fields.flag("use_qk_norm")
    count, width = fields.size("num_local_experts"), fields.size("intermediate_size")
    activation = fields.text("hidden_act")
    experts = Experts(
        count, experts_per_token(fields, count), width, shared_intermediate=width, activation=activation
    )
    dense = FeedForward(fields.size("intermediate_size_mlp"), activation=activation)

    def make(variant: tuple[int | None, bool, bool]) -> Layer:
        window, is_turned, is_sparse = variant
        attention = attention_of(fields, qkv_bias=bias, output_bias=bias, window=window)
        attention = replace(
            attention,
            rotary_dim=attention.rotary_dim if is_turned else 0,
            qk_norm="head" if has_norm and is_turned else None,
            qk_norm_kind=Norm(has_weight=False),
        )
        return Layer(attention, experts if is_sparse else dense)

    windows = layer_windows(
        fields, layers, lambda number: turned[number], fields.optional_size("attention_chunk_size")
    )
    variants = list(zip(windows, turned, _llama4_sparse(fields, layers), strict=True))
    return decoder(fields, head, grouped(variants, make), norm=RMS)


def _llama4_sparse(fields: Fields, layers: int) -> list[bool]:
    written, step = fields.sizes("moe_layers"), fields.size("interleave_moe_layer_step")
    sparse = range(step - 1, layers, step) if written is None else written
    return [number in sparse for number in range(layers)]


# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "gpt_oss": Family(
            "GptOss", usual_defaults(vocab_size=201088, hidden_size=2880, intermediate_size=2880,
            num_hidden_layers=36, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
            max_position_embeddings=131072, attention_bias=True, sliding_window=128, layer_types=None,
            num_local_experts=128, num_experts_per_tok=4),
            LOSS_IGNORED | {"swiglu_alpha", "swiglu_limit"}, _gpt_oss, GENERIC_TASKS,
            legacy=frozenset({"experts_per_token", "initial_context_length"}), aliases={"num_experts":
            "num_local_experts"},
        ),
        "llama4_text": Family(
            "Llama4", usual_defaults(vocab_size=202048, hidden_size=5120, intermediate_size=8192,
            intermediate_size_mlp=16384, num_hidden_layers=48, num_attention_heads=40, num_key_value_heads=8,
            head_dim=128, max_position_embeddings=131072, attention_bias=False, attention_chunk_size=8192,
            num_experts_per_tok=1, num_local_experts=16, moe_layers=None, interleave_moe_layer_step=1,
            use_qk_norm=True, no_rope_layers=None, no_rope_layer_interval=4, layer_types=None),
            LOSS_IGNORED | {"router_jitter_noise", "attn_temperature_tuning", "floor_scale", "attn_scale"},
            _llama4, {"ForCausalLM": "language", "TextModel": "none"},
            legacy=frozenset({"for_llm_compressor"}),
        ),
    }
)
# fmt: on
