"""Models from Megatron-LM's arguments, with the defaults of Megatron's parser.

Names, defaults and what follows from what: NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553,
megatron/training/arguments.py and megatron/core/transformer/transformer_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from ..model import Layer, Model, Norm, Stack
from .fields import Fields
from .hugging_face_family import grouped
from .megatron_blocks import attention_of, experts_of, feed_forward_of, norm_of, position_type, sparse_layers
from .megatron_known import (
    JOB_SIZES,
    MODEL_FLAGS,
    MODEL_OTHERS,
    MODEL_SIZES,
    check_names,
    plain_name,
)

_DEFAULTS: Final[Mapping[str, object]] = {**MODEL_SIZES, **dict.fromkeys(MODEL_FLAGS, False), **MODEL_OTHERS}
_SHARED: Final = MODEL_SIZES.keys() & JOB_SIZES.keys()


def read_megatron(
    arguments: Mapping[str, object],
    *,
    kind: Literal["gpt", "bert"] = "gpt",
    tokenizer_vocab: int | None = None,
    name: str | None = None,
    where: str = "Megatron arguments",
) -> tuple[Model, dict[str, object]]:
    """The model that Megatron-LM builds from ``arguments``, and the arguments about anything else, untouched.

    Names may be written with dashes or underscores, with or without ``--``. ``kind``: which of its programs
    runs, ``pretrain_gpt.py`` or ``pretrain_bert.py``. ``tokenizer_vocab``: the tokenizer's size, where there
    is no ``vocab-size``; without either the vocabulary is not known, and that is an error. It is padded to a
    multiple of ``make-vocab-size-divisible-by`` times the tensor-parallel size, as Megatron does.

    The parser's defaults hold for absent arguments. Raises ``UsageMistake`` for a value of the wrong kind, a
    missing size, and an argument that Megatron-LM does not have or that no formula covers.
    """
    given = {plain_name(key): value for key, value in arguments.items()}
    check_names(given, where, is_bert=kind == "bert")
    known = {key: _parsed(key, value) for key, value in given.items() if key in _DEFAULTS}
    fields = Fields(known, _DEFAULTS, where)
    rest = {
        key: value for key, value in arguments.items() if plain_name(key) not in _DEFAULTS.keys() - _SHARED
    }
    return _model(fields, kind, tokenizer_vocab, name or f"megatron {kind}"), rest


def padded_vocab(vocab: int, divisible_by: int, tensor_parallel_size: int) -> int:
    """``vocab`` up to the next multiple of both (megatron/training/vocab_utils.py)."""
    multiple = divisible_by * tensor_parallel_size
    return -(-vocab // multiple) * multiple


def _parsed(key: str, value: object) -> object:
    """A value as the parser would have it: command lines and shell scripts write everything as text."""
    if not isinstance(value, str):
        return value
    if key in MODEL_FLAGS and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key in MODEL_SIZES and value.isdecimal():
        return int(value)
    if key in ("hidden-dropout", "attention-dropout", "rotary-percent"):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _model(fields: Fields, kind: str, tokenizer_vocab: int | None, name: str) -> Model:
    layers, hidden = fields.size("num-layers"), fields.size("hidden-size")
    norm = norm_of(fields)
    attention = attention_of(fields)
    dense = feed_forward_of(fields)
    dropout = fields.probability("hidden-dropout")

    def make(is_sparse: bool) -> Layer:
        return Layer(attention, experts_of(fields) if is_sparse else dense, norm, dropout=dropout)

    groups = grouped(sparse_layers(fields, layers), make)
    is_learned = position_type(fields) == "learned_absolute"
    longest = fields.optional_size("max-position-embeddings")
    if is_learned and longest is None:
        raise fields.mistake("max-position-embeddings is missing; learned positions need it")
    model = Model(
        name=name,
        architecture="megatron",
        vocab=_vocab(fields, tokenizer_vocab),
        decoder=Stack(groups, hidden, final_norm=norm),
        tied=not fields.flag("untie-embeddings-and-output-weights"),
        positions=(longest or 0) if is_learned else 0,
        max_positions=longest or 0,
        embedding_dropout=dropout,
        prediction_layers=fields.optional_size("mtp-num-layers", least=0) or 0,
    )
    return _as_bert(fields, model) if kind == "bert" else model


def _as_bert(fields: Fields, model: Model) -> Model:
    """BERT's head, and with the binary head its pooler and its two token types."""
    has_binary_head = not fields.flag("bert-no-binary-head")
    return replace(
        model,
        decoder=replace(model.decoder, is_causal=False),
        head_bias=True,
        head_hidden=model.hidden,
        head_norm=Norm("layer", bias=True),
        token_types=2 if has_binary_head else 0,
        has_pooler=has_binary_head,
        has_next_sentence_head=has_binary_head,
    )


def _vocab(fields: Fields, tokenizer_vocab: int | None) -> int:
    padded = fields.optional_size("padded-vocab-size")
    if padded is not None:
        return padded
    vocab = fields.optional_size("vocab-size") or tokenizer_vocab
    if vocab is None:
        raise fields.mistake("vocab-size is missing, and no tokenizer's size was given; write vocab-size")
    multiple = fields.size("make-vocab-size-divisible-by")
    return padded_vocab(vocab, multiple, fields.size("tensor-model-parallel-size"))
