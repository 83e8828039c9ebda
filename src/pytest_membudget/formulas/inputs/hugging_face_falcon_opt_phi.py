"""Falcon, OPT and Phi 1 and 2, from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Attention, FeedForward, Layer, Model, Norm, Stack
from .fields import Fields
from .hugging_face_family import (
    DECODER_TASKS,
    GENERIC_TASKS,
    USUAL_IGNORED,
    Family,
    Head,
    decoder,
    divided,
    head_dim,
    keys,
    kv_heads,
    rotary_dim,
)
from .hugging_face_gpt import LAYER_NORM, with_biased_head


def _falcon(fields: Fields, head: Head) -> Model:
    """Falcon 7B: one head of keys and values; the new architecture: groups of them, and two norms."""
    heads, bias = fields.size("num_attention_heads"), fields.flag("bias")
    width = divided(fields, "hidden_size", "num_attention_heads")
    is_new, is_parallel = fields.flag("new_decoder_architecture"), fields.flag("parallel_attn")
    attention = Attention(
        heads,
        _falcon_kv_heads(fields, heads, is_new=is_new),
        width,
        qkv_bias=bias,
        output_bias=bias,
        fused_qkv=True,
        rotary_dim=0 if fields.flag("alibi") else rotary_dim(fields, width),
        dropout=fields.probability("attention_dropout"),
    )
    norms = fields.optional_size("num_ln_in_parallel_attn") or (2 if is_new else 1)
    layer = Layer(
        attention,
        FeedForward(
            fields.optional_size("ffn_hidden_size") or 4 * fields.size("hidden_size"),
            gated=False,
            activation=fields.text("activation"),
            bias=bias,
        ),
        LAYER_NORM,
        norms=2 if not is_parallel or norms == 2 else 1,
        is_parallel=is_parallel,
        dropout=fields.probability("hidden_dropout"),
    )
    groups = ((layer, fields.size("num_hidden_layers")),)
    return decoder(fields, head, groups, norm=LAYER_NORM)


def _falcon_kv_heads(fields: Fields, heads: int, *, is_new: bool) -> int:
    if is_new:
        return kv_heads(fields, key="num_kv_heads")
    return 1 if fields.flag("multi_query") else heads


def _opt(fields: Fields, head: Head) -> Model:
    """Learned positions from the third row on; 350M has a narrower embedding, and norms behind its blocks."""
    heads, bias = fields.size("num_attention_heads"), fields.flag("enable_bias")
    is_affine, is_before = fields.flag("layer_norm_elementwise_affine"), fields.flag("do_layer_norm_before")
    norm = Norm("layer", bias=is_affine, has_weight=is_affine)
    dropout = fields.probability("dropout")
    attention = Attention(
        heads,
        heads,
        divided(fields, "hidden_size", "num_attention_heads"),
        qkv_bias=bias,
        output_bias=bias,
        dropout=fields.probability("attention_dropout"),
    )
    block = FeedForward(
        fields.size("ffn_dim"), gated=False, activation=fields.text("activation_function"), bias=bias
    )
    layer = Layer(attention, block, norm, has_post_norms=not is_before, dropout=dropout)
    has_final = is_before and not fields.flag("_remove_final_layer_norm")
    hidden = fields.size("hidden_size")
    return Model(
        **head.settings,
        vocab=fields.size("vocab_size"),
        decoder=Stack(
            ((layer, fields.size("num_hidden_layers")),), hidden, final_norm=norm if has_final else None
        ),
        tied=fields.flag("tie_word_embeddings"),
        embedding_dim=fields.optional_size("word_embed_proj_dim"),
        positions=fields.size("max_position_embeddings") + 2,  # OPTLearnedPositionalEmbedding's offset
        max_positions=fields.size("max_position_embeddings"),
    )


def _phi(fields: Fields, head: Head) -> Model:
    """Phi 1 and 2: one norm feeds both blocks, and everything has biases, the head too."""
    width = head_dim(fields)
    attention = Attention(
        fields.size("num_attention_heads"),
        kv_heads(fields),
        width,
        qkv_bias=True,
        output_bias=True,
        qk_norm="head" if fields.flag("qk_layernorm") else None,
        qk_norm_kind=LAYER_NORM,
        rotary_dim=rotary_dim(fields, width, usual=0.5),
        dropout=fields.probability("attention_dropout"),
    )
    block = FeedForward(
        fields.size("intermediate_size"), gated=False, activation=fields.text("hidden_act"), bias=True
    )
    dropout = fields.probability("resid_pdrop")
    layer = Layer(attention, block, LAYER_NORM, norms=1, is_parallel=True, dropout=dropout)
    groups = ((layer, fields.size("num_hidden_layers")),)
    embedding_dropout = fields.probability("embd_pdrop")
    model = decoder(fields, head, groups, norm=LAYER_NORM, embedding_dropout=embedding_dropout)
    return with_biased_head(model, head)


# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "falcon": Family(
            "Falcon", keys(vocab_size=65024, hidden_size=4544, num_hidden_layers=32, num_attention_heads=71,
            num_ln_in_parallel_attn=None, hidden_dropout=0.0, attention_dropout=0.0, num_kv_heads=None,
            alibi=False, new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False,
            max_position_embeddings=2048, rope_parameters=None, ffn_hidden_size=None, activation="gelu",
            tie_word_embeddings=True),
            USUAL_IGNORED | {"layer_norm_epsilon"}, _falcon, DECODER_TASKS,
            legacy=frozenset({"apply_residual_connection_post_layernorm"}), aliases={"n_embed":
            "hidden_size"},
        ),
        "opt": Family(
            "OPT", keys(vocab_size=50272, hidden_size=768, num_hidden_layers=12, ffn_dim=3072,
            max_position_embeddings=2048, do_layer_norm_before=True, _remove_final_layer_norm=False,
            word_embed_proj_dim=None, dropout=0.1, attention_dropout=0.0, num_attention_heads=12,
            activation_function="relu", enable_bias=True, layer_norm_elementwise_affine=True,
            tie_word_embeddings=True),
            USUAL_IGNORED - {"initializer_range"} | {"layerdrop", "init_std"}, _opt, DECODER_TASKS,
            legacy=frozenset({"activation_dropout", "prefix"}),
        ),
        "phi": Family(
            "Phi", keys(vocab_size=51200, hidden_size=2048, intermediate_size=8192, num_hidden_layers=24,
            num_attention_heads=32, num_key_value_heads=None, resid_pdrop=0.0, embd_pdrop=0.0,
            attention_dropout=0.0, hidden_act="gelu_new", max_position_embeddings=2048,
            tie_word_embeddings=False, rope_parameters=None, qk_layernorm=False),
            USUAL_IGNORED | {"layer_norm_eps"}, _phi, GENERIC_TASKS, extras={"head_dim": None},
        ),
    }
)
# fmt: on
