"""Encoders, and encoder with decoder: BERT, RoBERTa, T5, mT5, ViT (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ..model import Attention, FeedForward, Layer, Model, Norm, Patches, Stack
from .fields import Fields
from .hugging_face_family import USUAL_IGNORED, Family, Head, Task, divided, keys

_LAYER_NORM: Final = Norm("layer", bias=True)
_RMS: Final = Norm()


def _encoder_layer(fields: Fields, *, qkv_bias: bool, has_post_norms: bool) -> Layer:
    heads = fields.size("num_attention_heads")
    attention = Attention(
        heads,
        heads,
        divided(fields, "hidden_size", "num_attention_heads"),
        qkv_bias=qkv_bias,
        output_bias=True,
        dropout=fields.probability("attention_probs_dropout_prob"),
    )
    block = FeedForward(
        fields.size("intermediate_size"), gated=False, activation=fields.text("hidden_act"), bias=True
    )
    dropout = fields.probability("hidden_dropout_prob")
    return Layer(attention, block, _LAYER_NORM, has_post_norms=has_post_norms, dropout=dropout)


def _bert(fields: Fields, head: Head) -> Model:
    """Norms behind each block and behind the embeddings; the head has a dense layer and a norm before it."""
    if fields.flag("add_cross_attention"):
        raise fields.wrong(
            "add_cross_attention", "false: an encoder that reads another one is not understood"
        )
    layer = _encoder_layer(fields, qkv_bias=True, has_post_norms=True)
    hidden = fields.size("hidden_size")
    stack = Stack(
        ((layer, fields.size("num_hidden_layers")),),
        hidden,
        is_causal=fields.flag("is_decoder"),
        final_norm=None,
    )
    return Model(
        vocab=fields.size("vocab_size"),
        decoder=stack,
        tied=fields.flag("tie_word_embeddings"),
        positions=fields.size("max_position_embeddings"),
        max_positions=fields.size("max_position_embeddings"),
        token_types=fields.size("type_vocab_size"),
        embedding_norm=_LAYER_NORM,
        embedding_dropout=fields.probability("hidden_dropout_prob"),
        **_bert_head(head, hidden),
    )


def _bert_head(head: Head, hidden: int) -> dict[str, Any]:
    is_roberta = head.architecture.startswith("Roberta")
    settings = {**head.settings, "head_bias": True}
    if head.task in ("language", "pretraining"):
        settings |= {"head_hidden": hidden, "head_norm": _LAYER_NORM}
    if head.task == "pretraining":
        settings |= {"has_pooler": True, "has_next_sentence_head": True}
    if head.task == "sequence":
        settings |= {"head_hidden": hidden} if is_roberta else {"has_pooler": True}
    if head.task == "none":
        settings |= {"has_pooler": True}
    return settings


def _t5(fields: Fields, head: Head) -> Model:
    """Two stacks, one with attention over the other's output; one table is all embeddings and the head."""
    projection = fields.text("feed_forward_proj")
    parts = projection.split("-")
    if len(parts) > 2 or (len(parts) == 2 and parts[0] != "gated"):
        raise fields.wrong("feed_forward_proj", "an activation, as 'relu', or a gated one, as 'gated-gelu'")
    dropout = fields.probability("dropout_rate")
    attention = Attention(
        fields.size("num_heads"),
        fields.size("num_heads"),
        fields.size("d_kv"),
        relative_buckets=fields.size("relative_attention_num_buckets"),
        dropout=dropout,
    )
    cross = Attention(attention.heads, attention.heads, attention.head_dim, dropout=dropout)
    # T5Config takes "gated-gelu" for the tanh approximation
    activation = "gelu_new" if projection == "gated-gelu" else parts[-1]
    block = FeedForward(fields.size("d_ff"), gated=parts[0] == "gated", activation=activation)
    layers, hidden = fields.size("num_layers"), fields.size("d_model")
    reader = Layer(attention, block, _RMS, dropout=dropout)
    writer = Layer(attention, block, _RMS, norms=3, cross_attention=cross, dropout=dropout)
    return Model(
        **head.settings,
        vocab=fields.size("vocab_size"),
        encoder=Stack(((reader, layers),), hidden, is_causal=False, final_norm=_RMS),
        decoder=Stack(
            ((writer, fields.optional_size("num_decoder_layers") or layers),), hidden, final_norm=_RMS
        ),
        tied=True,
        embedding_dropout=dropout,
    )


def _vit(fields: Fields, head: Head) -> Model:
    """A convolution makes patches; a class token comes before them, and positions are learned."""
    layer = _encoder_layer(fields, qkv_bias=fields.flag("qkv_bias"), has_post_norms=False)
    patches = Patches(
        _square(fields, "image_size"), _square(fields, "patch_size"), fields.size("num_channels")
    )
    if patches.patch_size > patches.image_size:
        raise fields.wrong("patch_size", f"at most image_size, {patches.image_size}")
    stack = Stack(
        ((layer, fields.size("num_hidden_layers")),),
        fields.size("hidden_size"),
        is_causal=False,
        final_norm=_LAYER_NORM,
    )
    return Model(
        **{**head.settings, "head_bias": head.task != "none"},
        vocab=0,
        decoder=stack,
        positions=patches.count + 1,
        max_positions=patches.count + 1,
        patches=patches,
        embedding_dropout=fields.probability("hidden_dropout_prob"),
        has_pooler=head.task == "none",
        pooler_size=fields.optional_size("pooler_output_size", least=0) or None,
    )


def _square(fields: Fields, key: str) -> int:
    """A side, from one number or two that are the same."""
    value = fields.raw(key)
    if isinstance(value, list | tuple) and len(value) == 2 and value[0] == value[1]:
        return Fields({key: value[0]}, {}, fields.where).size(key)
    if isinstance(value, list | tuple):
        raise fields.wrong(key, "one number: other images than square ones are not understood")
    return fields.size(key)


_BERT_DEFAULTS: Final = keys(
    vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
    hidden_act="gelu", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, max_position_embeddings=512,
    type_vocab_size=2, is_decoder=False, add_cross_attention=False, tie_word_embeddings=True,
)  # fmt: skip
_BERT_IGNORED: Final = USUAL_IGNORED | {"layer_norm_eps", "classifier_dropout"}
_BERT_LEGACY: Final = frozenset({
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type",
})  # fmt: skip
_BERT_TASKS: Final[Mapping[str, Task]] = {
    "ForMaskedLM": "language",
    "Model": "none",
    "ForSequenceClassification": "sequence",
    "ForTokenClassification": "token",
}
_T5_DEFAULTS: Final = keys(
    vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_decoder_layers=None, num_heads=8,
    relative_attention_num_buckets=32, dropout_rate=0.1, feed_forward_proj="relu",
)  # fmt: skip
_T5_IGNORED: Final = USUAL_IGNORED - {
    "initializer_range", "bos_token_id"} | {"relative_attention_max_distance", "layer_norm_epsilon",
    "initializer_factor", "classifier_dropout", "is_decoder",
}  # fmt: skip
_T5_TASKS: Final[Mapping[str, Task]] = {"ForConditionalGeneration": "language", "Model": "none"}
#: Transformers 5 ties T5's weights whatever the file says; the others are of classes long gone.
_T5_LEGACY: Final = frozenset({"tie_word_embeddings", "n_positions", "output_past"})
_T5_ALIASES: Final = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}

# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "bert": Family(
            "Bert", _BERT_DEFAULTS,
            _BERT_IGNORED, _bert, {**_BERT_TASKS, "LMHeadModel": "language", "ForPreTraining": "pretraining"},
            legacy=_BERT_LEGACY,
        ),
        "roberta": Family(
            "Roberta", {**_BERT_DEFAULTS, "vocab_size": 50265},
            _BERT_IGNORED, _bert, {**_BERT_TASKS, "ForCausalLM": "language"}, legacy=_BERT_LEGACY,
        ),
        "t5": Family("T5", _T5_DEFAULTS, _T5_IGNORED, _t5, _T5_TASKS, legacy=_T5_LEGACY, aliases=_T5_ALIASES),
        "mt5": Family(
            "MT5", {**_T5_DEFAULTS, "vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6,
            "feed_forward_proj": "gated-gelu"},
            _T5_IGNORED | {"bos_token_id", "decoder_start_token_id", "tie_word_embeddings"}, _t5, _T5_TASKS,
            legacy=_T5_LEGACY, aliases=_T5_ALIASES,
        ),
        "vit": Family(
            "ViT", keys(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
            hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, image_size=224,
            patch_size=16, num_channels=3, qkv_bias=True, pooler_output_size=None),
            frozenset({"initializer_range", "layer_norm_eps", "encoder_stride", "pooler_act"}), _vit,
            {"ForImageClassification": "sequence", "Model": "none"},
        ),
    }
)
# fmt: on
