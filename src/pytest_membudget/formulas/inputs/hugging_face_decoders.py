"""Dense decoders in Llama's manner, from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from ..model import Attention, FeedForward, Layer, Model, Norm
from .fields import Fields
from .hugging_face_family import (
    GENERIC_TASKS,
    USUAL_IGNORED,
    Family,
    Head,
    decoder,
    grouped,
    head_dim,
    kv_heads,
    layer_windows,
    rotary_dim,
    rotary_layers,
)

RMS: Final = Norm()


def attention_of(
    fields: Fields,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
    window: int | None = None,
    qk_norm: Literal["head", "projection"] | None = None,
    fused_qkv: bool = False,
) -> Attention:
    """Grouped-query attention with rotary positions, of the usual keys."""
    width = head_dim(fields)
    return Attention(
        heads=fields.size("num_attention_heads"),
        kv_heads=kv_heads(fields),
        head_dim=width,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        fused_qkv=fused_qkv,
        qk_norm=qk_norm,
        rotary_dim=rotary_dim(fields, width),
        window=window,
        dropout=fields.probability("attention_dropout"),
    )


def feed_forward_of(fields: Fields, *, activation: str = "hidden_act", bias: bool = False) -> FeedForward:
    """The gated block of the usual keys."""
    return FeedForward(fields.size("intermediate_size"), activation=fields.text(activation), bias=bias)


def sliding_window(fields: Fields) -> int | None:
    """The window of a class that has it switched by ``use_sliding_window`` (Qwen)."""
    return fields.optional_size("sliding_window") if fields.flag("use_sliding_window") else None


def _llama(fields: Fields, head: Head) -> Model:
    bias = fields.flag("attention_bias")
    attention = attention_of(fields, qkv_bias=bias, output_bias=bias)
    layer = Layer(attention, feed_forward_of(fields, bias=fields.flag("mlp_bias")))
    return decoder(fields, head, ((layer, fields.size("num_hidden_layers")),), norm=RMS)


def _mistral(fields: Fields, head: Head) -> Model:
    attention = attention_of(fields, window=fields.optional_size("sliding_window"))
    layer = Layer(attention, feed_forward_of(fields))
    return decoder(fields, head, ((layer, fields.size("num_hidden_layers")),), norm=RMS)


def _qwen(fields: Fields, head: Head) -> Model:
    """Qwen2 has biases on queries, keys and values; Qwen3 norms of queries and keys, and the usual switch."""
    is_third = head.architecture.startswith("Qwen3")
    bias = fields.flag("attention_bias") if is_third else True
    layers, after = fields.size("num_hidden_layers"), fields.size("max_window_layers", least=0)

    def make(window: int | None) -> Layer:
        attention = attention_of(
            fields,
            qkv_bias=bias,
            output_bias=bias and is_third,
            window=window,
            qk_norm="head" if is_third else None,
        )
        return Layer(attention, feed_forward_of(fields))

    windows = layer_windows(fields, layers, lambda number: number >= after, sliding_window(fields))
    return decoder(fields, head, grouped(windows, make), norm=RMS)


def _smollm3(fields: Fields, head: Head) -> Model:
    """Every fourth layer has no rotary positions."""
    layers, bias = fields.size("num_hidden_layers"), fields.flag("attention_bias")
    window = sliding_window(fields)
    turned = rotary_layers(fields, layers)

    def make(variant: tuple[int | None, bool]) -> Layer:
        attention = attention_of(fields, qkv_bias=bias, output_bias=bias, window=variant[0])
        if not variant[1]:
            attention = replace(attention, rotary_dim=0)
        return Layer(attention, feed_forward_of(fields, bias=fields.flag("mlp_bias")))

    windows = layer_windows(fields, layers, lambda number: not turned[number], window)
    return decoder(fields, head, grouped(list(zip(windows, turned, strict=True)), make), norm=RMS)


def _olmo2(fields: Fields, head: Head) -> Model:
    """Norms after each block only, and on whole queries and keys."""
    bias = fields.flag("attention_bias")
    attention = attention_of(fields, qkv_bias=bias, output_bias=bias, qk_norm="projection")
    layer = Layer(attention, feed_forward_of(fields), has_post_norms=True)
    return decoder(fields, head, ((layer, fields.size("num_hidden_layers")),), norm=RMS)


def _phi3(fields: Fields, head: Head) -> Model:
    """One weight for queries, keys and values, and one for gate and up projection."""
    attention = attention_of(fields, fused_qkv=True, window=fields.optional_size("sliding_window"))
    block = replace(feed_forward_of(fields), fused_gate_up=True)
    layer = Layer(attention, block, dropout=fields.probability("resid_pdrop"))
    groups = ((layer, fields.size("num_hidden_layers")),)
    return decoder(fields, head, groups, norm=RMS)


def usual_defaults(**values: object) -> dict[str, object]:
    """The keys that all classes here have; those without a value have no common default and must be given."""
    usual: dict[str, object] = {
        "num_key_value_heads": None,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "rope_parameters": None,
    }
    return {**usual, **values}


NORM_IGNORED: Final = USUAL_IGNORED | {"rms_norm_eps"}
_LLAMA_DEFAULTS: Final = usual_defaults(
    vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
    max_position_embeddings=2048, attention_bias=False, mlp_bias=False, head_dim=None,
)  # fmt: skip
_QWEN_DEFAULTS: Final = usual_defaults(
    vocab_size=151936, hidden_size=4096, intermediate_size=22016, num_hidden_layers=32,
    num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=32768, use_sliding_window=False,
    sliding_window=4096, max_window_layers=28, layer_types=None,
)  # fmt: skip
# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "llama": Family("Llama", _LLAMA_DEFAULTS, NORM_IGNORED | {"pretraining_tp"}, _llama, GENERIC_TASKS),
        "mistral": Family(
            "Mistral", usual_defaults(vocab_size=32000, hidden_size=4096, intermediate_size=14336,
            num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
            max_position_embeddings=131072, sliding_window=4096, head_dim=None),
            NORM_IGNORED, _mistral, GENERIC_TASKS,
        ),
        "qwen2": Family(
            "Qwen2", _QWEN_DEFAULTS,
            NORM_IGNORED, _qwen, GENERIC_TASKS, extras={"head_dim": None},
        ),
        "qwen3": Family(
            "Qwen3", {**_QWEN_DEFAULTS, "head_dim": 128, "attention_bias": False},
            NORM_IGNORED, _qwen, GENERIC_TASKS,
        ),
        "smollm3": Family(
            "SmolLM3", usual_defaults(vocab_size=128256, hidden_size=2048, intermediate_size=11008,
            num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=4,
            max_position_embeddings=32768, tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
            use_sliding_window=False, sliding_window=None, layer_types=None, no_rope_layers=None,
            no_rope_layer_interval=4),
            NORM_IGNORED, _smollm3, GENERIC_TASKS, extras={"head_dim": None},
            legacy=frozenset({"max_window_layers", "pretraining_tp"}),
        ),
        "olmo2": Family(
            "Olmo2", usual_defaults(vocab_size=50304, hidden_size=4096, intermediate_size=11008,
            num_hidden_layers=32, num_attention_heads=32, max_position_embeddings=2048, attention_bias=False),
            NORM_IGNORED, _olmo2, extras={"head_dim": None},
        ),
        # embedding dropout is written in the class, and its module does not apply it
        "phi3": Family(
            "Phi3", usual_defaults(vocab_size=32064, hidden_size=3072, intermediate_size=8192,
            num_hidden_layers=32, num_attention_heads=32, max_position_embeddings=4096, resid_pdrop=0.0,
            sliding_window=None),
            NORM_IGNORED | {"original_max_position_embeddings", "embd_pdrop"}, _phi3, GENERIC_TASKS,
            extras={"head_dim": None}, legacy=frozenset({"attention_bias"}),
        ),
    }
)
# fmt: on
