"""GPT-2, GPT-J and GPT-NeoX, from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..model import Attention, FeedForward, Layer, Model, Norm, Stack
from .fields import Fields
from .hugging_face_family import (
    DECODER_TASKS,
    USUAL_IGNORED,
    Family,
    Head,
    decoder,
    divided,
    keys,
    rotary_dim,
)

LAYER_NORM: Final = Norm("layer", bias=True)


def _gpt2(fields: Fields, head: Head) -> Model:
    hidden, heads = fields.size("n_embd"), fields.size("n_head")
    attention = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=divided(fields, "n_embd", "n_head"),
        qkv_bias=True,
        output_bias=True,
        fused_qkv=True,
        dropout=fields.probability("attn_pdrop"),
    )
    block = FeedForward(_inner(fields), gated=False, activation=fields.text("activation_function"), bias=True)
    has_cross = fields.flag("add_cross_attention")
    layer = Layer(
        attention,
        block,
        LAYER_NORM,
        norms=3 if has_cross else 2,
        cross_attention=attention if has_cross else None,
        dropout=fields.probability("resid_pdrop"),
    )
    return Model(
        **head.settings,
        vocab=fields.size("vocab_size"),
        decoder=Stack(((layer, fields.size("n_layer")),), hidden, final_norm=LAYER_NORM),
        tied=fields.flag("tie_word_embeddings"),
        positions=fields.size("n_positions"),
        max_positions=fields.size("n_positions"),
        embedding_dropout=fields.probability("embd_pdrop"),
    )


def _inner(fields: Fields) -> int:
    """GPT-2's and GPT-J's feed-forward width: four times the hidden size where none is written."""
    return fields.optional_size("n_inner") or 4 * fields.size("n_embd")


def _gptj(fields: Fields, head: Head) -> Model:
    """One norm feeds attention and feed-forward; attention has no biases, the head has."""
    hidden, heads = fields.size("n_embd"), fields.size("n_head")
    width = divided(fields, "n_embd", "n_head")
    attention = Attention(
        heads, heads, width, rotary_dim=fields.size("rotary_dim"), dropout=fields.probability("attn_pdrop")
    )
    block = FeedForward(_inner(fields), gated=False, activation=fields.text("activation_function"), bias=True)
    layer = Layer(
        attention,
        block,
        LAYER_NORM,
        norms=1,
        is_parallel=True,
        dropout=fields.probability("resid_pdrop"),
    )
    model = Model(
        **head.settings,
        vocab=fields.size("vocab_size"),
        decoder=Stack(((layer, fields.size("n_layer")),), hidden, final_norm=LAYER_NORM),
        tied=fields.flag("tie_word_embeddings"),
        max_positions=fields.size("n_positions"),
        embedding_dropout=fields.probability("embd_pdrop"),
    )
    return with_biased_head(model, head)


def with_biased_head(model: Model, head: Head) -> Model:
    """``model`` with a bias on the vocabulary's logits, where it has them."""
    return replace(model, head_bias=True) if head.task == "language" else model


def _gpt_neox(fields: Fields, head: Head) -> Model:
    heads, bias = fields.size("num_attention_heads"), fields.flag("attention_bias")
    width = divided(fields, "hidden_size", "num_attention_heads")
    dropout = fields.probability("hidden_dropout")
    attention = Attention(
        heads,
        heads,
        width,
        qkv_bias=bias,
        output_bias=bias,
        fused_qkv=True,
        rotary_dim=rotary_dim(fields, width, usual=0.25, legacy="rotary_pct"),
        dropout=fields.probability("attention_dropout"),
    )
    block = FeedForward(
        fields.size("intermediate_size"), gated=False, activation=fields.text("hidden_act"), bias=True
    )
    is_parallel = fields.flag("use_parallel_residual")
    layer = Layer(attention, block, LAYER_NORM, is_parallel=is_parallel, dropout=dropout)
    groups = ((layer, fields.size("num_hidden_layers")),)
    return decoder(fields, head, groups, norm=LAYER_NORM, embedding_dropout=dropout)


_GPT2_LEGACY: Final = frozenset({"n_ctx", "task_specific_params", "rotary"})
_GPT2_NAMES: Final = {
    "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}  # fmt: skip
# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "gpt2": Family(
            "GPT2", keys(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12, n_inner=None,
            activation_function="gelu_new", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
            add_cross_attention=False, tie_word_embeddings=True),
            USUAL_IGNORED | {"layer_norm_epsilon", "summary_type", "summary_use_proj", "summary_activation",
            "summary_proj_to_labels", "summary_first_dropout", "scale_attn_weights",
            "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"}, _gpt2, {"LMHeadModel": "language",
            "Model": "none", "ForSequenceClassification": "sequence"}, legacy=_GPT2_LEGACY,
            aliases=_GPT2_NAMES,
        ),
        "gptj": Family(
            "GPTJ", keys(vocab_size=50400, n_positions=2048, n_embd=4096, n_layer=28, n_head=16,
            rotary_dim=64, n_inner=None, activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, tie_word_embeddings=False),
            USUAL_IGNORED | {"layer_norm_epsilon"}, _gptj, {"ForCausalLM": "language", "Model": "none"},
            legacy=_GPT2_LEGACY | {"summary_type", "summary_use_proj", "summary_activation",
            "summary_proj_to_labels", "summary_first_dropout", "scale_attn_weights"},
            aliases=_GPT2_NAMES,
        ),
        "gpt_neox": Family(
            "GPTNeoX", keys(vocab_size=50432, hidden_size=6144, num_hidden_layers=44, num_attention_heads=64,
            intermediate_size=24576, hidden_act="gelu", attention_dropout=0.0, hidden_dropout=0.0,
            max_position_embeddings=2048, tie_word_embeddings=False, use_parallel_residual=True,
            rope_parameters=None, attention_bias=True),
            USUAL_IGNORED | {"classifier_dropout", "layer_norm_eps", "is_decoder"}, _gpt_neox, DECODER_TASKS,
            extras={"rotary_pct": None}, legacy=frozenset({"rotary_emb_base"}),
        ),
    }
)
# fmt: on
