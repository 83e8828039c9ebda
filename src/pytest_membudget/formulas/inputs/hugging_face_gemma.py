"""Gemma 1, 2 and 3 (text), from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from ..model import FeedForward, Layer, Model
from .fields import Fields
from .hugging_face_decoders import NORM_IGNORED, RMS, attention_of, feed_forward_of, usual_defaults
from .hugging_face_family import GENERIC_TASKS, Family, Head, decoder, grouped, layer_windows


def _gemma(fields: Fields, head: Head) -> Model:
    bias = fields.flag("attention_bias")
    attention = attention_of(fields, qkv_bias=bias, output_bias=bias)
    activation = "gelu_pytorch_tanh" if fields.text("hidden_act") == "gelu" else fields.text("hidden_act")
    block = FeedForward(fields.size("intermediate_size"), activation=activation)
    groups = ((Layer(attention, block), fields.size("num_hidden_layers")),)
    return _of_gemma(fields, head, groups)


def _gemma2(fields: Fields, head: Head) -> Model:
    """Norms before and after each block; every second layer looks back a window only."""
    return _windowed_gemma(fields, head, pattern=2, qk_norm=None)


def _gemma3(fields: Fields, head: Head) -> Model:
    """As Gemma 2, with norms of queries and keys; five layers of six look back a window only."""
    pattern = fields.size("sliding_window_pattern")
    return _windowed_gemma(fields, head, pattern=pattern, qk_norm="head")


def _windowed_gemma(fields: Fields, head: Head, *, pattern: int, qk_norm: Literal["head"] | None) -> Model:
    bias = fields.flag("attention_bias")
    size = fields.optional_size("sliding_window")
    if size is not None and qk_norm and fields.flag("use_bidirectional_attention"):
        size = size // 2 + 1  # Gemma3TextConfig: flash attention's bounds are exclusive

    def make(window: int | None) -> Layer:
        attention = attention_of(fields, qkv_bias=bias, output_bias=bias, window=window, qk_norm=qk_norm)
        block = feed_forward_of(fields, activation="hidden_activation")
        return Layer(attention, block, norms=4, has_post_norms=True)

    layers = fields.size("num_hidden_layers")
    windows = layer_windows(fields, layers, lambda number: (number + 1) % pattern != 0, size)
    softcap = fields.optional("final_logit_softcapping") is not None
    return _of_gemma(fields, head, grouped(windows, make), final_softcap=softcap)


def _of_gemma(
    fields: Fields, head: Head, groups: tuple[tuple[Layer, int], ...], *, final_softcap: bool = False
) -> Model:
    model = decoder(fields, head, groups, norm=RMS, scales_embedding=True, final_softcap=final_softcap)
    if fields.flag("use_bidirectional_attention"):
        return replace(model, decoder=replace(model.decoder, is_causal=False))
    return model


_GEMMA2_DEFAULTS: Final = {
    **usual_defaults(vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26,
    num_attention_heads=8, num_key_value_heads=4, head_dim=256, max_position_embeddings=8192,
    tie_word_embeddings=True, attention_bias=False, hidden_activation="gelu_pytorch_tanh",
    sliding_window=4096, layer_types=None, final_logit_softcapping=30.0, use_bidirectional_attention=None),
}  # fmt: skip
del _GEMMA2_DEFAULTS["hidden_act"]
_GEMMA_IGNORED: Final = NORM_IGNORED | {"query_pre_attn_scalar", "attn_logit_softcapping"}

# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "gemma": Family(
            "Gemma", usual_defaults(vocab_size=256000, hidden_size=3072, intermediate_size=24576,
            num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=16, head_dim=256,
            max_position_embeddings=8192, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True,
            attention_bias=False, use_bidirectional_attention=None),
            NORM_IGNORED, _gemma, GENERIC_TASKS, legacy=frozenset({"hidden_activation"}),
        ),
        "gemma2": Family(
            "Gemma2", _GEMMA2_DEFAULTS,
            _GEMMA_IGNORED, _gemma2, GENERIC_TASKS, legacy=frozenset({"hidden_act", "cache_implementation"}),
        ),
        "gemma3_text": Family(
            "Gemma3", {**_GEMMA2_DEFAULTS, "vocab_size": 262208, "max_position_embeddings": 131072,
            "final_logit_softcapping": None, "use_bidirectional_attention": False},
            _GEMMA_IGNORED, _gemma3, {"ForCausalLM": "language", "TextModel": "none"},
            extras={"sliding_window_pattern": 6}, legacy=frozenset({"rope_local_base_freq",
            "cache_implementation"}),
        ),
    }
)
# fmt: on
