"""All parameter tensors of a model, and how many parameters that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Literal

from .layer_parameters import LayerMaker, Linear, linear, norm
from .model import Layer, Model, Stack
from .naming import LayerNames, ModelNames
from .parameter_tensors import Inventory, LayerTensors, ParameterTensor, Place
from .tensor_names import names_of


def inventory_of(model: Model, *, experts: Literal["stacked", "separate"] | None = None) -> Inventory:
    """Every parameter tensor of ``model``: name, whole shape, place, and how tensor parallelism splits it.

    ``experts``: one tensor for all experts of a layer (``"stacked"``: transformers 5, torchtitan), or one an
    expert (``"separate"``: transformers 4, Megatron); None: as ``model.architecture`` has it.

    Splits are Megatron's: projections in by their outputs, projections out by their inputs, embedding and
    head by vocabulary, all else whole. Transformers' ``base_model_tp_plan`` (5.23.0) splits the same weights.
    """
    names = names_of(model.architecture)
    encoder_hidden = model.hidden if model.encoder is None else model.encoder.hidden
    maker = LayerMaker(names, model.hidden, encoder_hidden, experts)
    layers: list[LayerTensors] = []
    if model.encoder is not None:
        encoder = replace(maker, hidden=encoder_hidden)
        layers += _layers(
            encoder, model.encoder, names.encoder_layer or names.layer, "encoder", names.encoder_layers
        )
    layers += _layers(maker, model.decoder, names.layer, "decoder", _base(model, names) + names.layers)
    after = (*_final_norms(model, names), *_prediction(model, names, maker), *_head(model, names))
    return Inventory(tuple(_before(model, names)), tuple(layers), after)


def parameter_count(model: Model) -> int:
    """How many parameters ``model`` has, a tied weight counted once.

    Corrections of a router that no gradient reaches (DeepSeek-V3's, a buffer in transformers) are among them,
    as in its published 671B.
    """
    return inventory_of(model).elements


def _last(stack: Stack) -> Layer:
    return stack.groups[-1][0]


def _base(model: Model, names: ModelNames) -> str:
    """The prefix of the base model's names: nothing where the class is the base model itself."""
    return names.base if model.has_head else ""


def _layers(
    maker: LayerMaker,
    stack: Stack,
    names: LayerNames,
    kind: Literal["decoder", "encoder"],
    path: str,
) -> list[LayerTensors]:
    """Neighbouring layers with the same tensors together, though they differ elsewhere (in their window)."""
    # by identity: readers use one object for identical layers, and to hash it costs as much as its tensors
    made: dict[tuple[int, bool], tuple[ParameterTensor, ...]] = {}
    runs: list[tuple[tuple[ParameterTensor, ...], int]] = []
    for layer, count in _first_apart(stack):
        is_first = not runs and layer.attention.relative_buckets > 0
        key = (id(layer), is_first)
        if key not in made:
            made[key] = maker.tensors(layer, names, is_first=is_first)
        runs.append((made[key], count))
    return [
        LayerTensors(tensors, sum(count for _, count in run), kind, path)
        for tensors, run in groupby(runs, key=lambda each: each[0])
    ]


def _first_apart(stack: Stack) -> Iterator[tuple[Layer, int]]:
    """The groups of ``stack``, its first layer on its own where it alone has a table of positions."""
    groups = [(layer, count) for layer, count in stack.groups if count]
    if groups and groups[0][0].attention.relative_buckets and groups[0][1] > 1:
        layer, count = groups[0]
        groups[:1] = [(layer, 1), (layer, count - 1)]
    yield from groups


def _before(model: Model, names: ModelNames) -> Iterator[ParameterTensor]:
    base, hidden = _base(model, names), model.hidden
    width = model.embedding_dim or hidden
    if model.vocab:
        yield _table(f"{base}{names.embedding}.weight", (model.vocab, width), "embedding", 0)
    if model.patches is not None:
        yield from _patches(model, names)
    if model.positions:
        shape = (model.positions, hidden) if model.patches is None else (1, model.positions, hidden)
        yield _table(base + names.positions, shape, "position")
    if model.token_types:
        yield _table(f"{base}{names.token_types}.weight", (model.token_types, hidden), "embedding")
    if width != hidden:
        yield from linear(base + names.project_in, Linear(width, hidden), "other")
    if model.embedding_norm is not None:
        yield from norm(base + names.embedding_norm, model.embedding_norm, hidden)


def _table(name: str, shape: tuple[int, ...], place: Place, split_dim: int | None = None) -> ParameterTensor:
    return ParameterTensor(name, shape, place, split_dim=split_dim)


def _patches(model: Model, names: ModelNames) -> Iterator[ParameterTensor]:
    """The class token, where positions are more than patches, and the convolution that makes the patches."""
    patches, base = model.patches, _base(model, names)
    assert patches is not None
    extra = model.positions - patches.count
    if extra > 0:
        yield _table(base + names.class_token, (1, extra, model.hidden), "other")
    kernel = (model.hidden, patches.channels, patches.patch_size, patches.patch_size)
    yield ParameterTensor(f"{base}{names.patches}.weight", kernel, "other")
    yield ParameterTensor(f"{base}{names.patches}.bias", (model.hidden,), "other")


def _final_norms(model: Model, names: ModelNames) -> Iterator[ParameterTensor]:
    base = _base(model, names)
    if model.encoder is not None and model.encoder.final_norm is not None:
        yield from norm(base + names.encoder_final_norm, model.encoder.final_norm, model.encoder.hidden)
    if model.decoder.final_norm is not None:
        yield from norm(base + names.final_norm, model.decoder.final_norm, model.hidden)


def _prediction(model: Model, names: ModelNames, maker: LayerMaker) -> Iterator[ParameterTensor]:
    """Multi-token prediction, as Megatron-LM and DeepSeek-V3's report have it; it is on the last stage."""
    if not model.prediction_layers:
        return
    layer = _last(model.decoder)
    made = [*norm("enorm", layer.norm, model.hidden), *norm("hnorm", layer.norm, model.hidden)]
    made += linear("eh_proj", Linear(2 * model.hidden, model.hidden, "output"), "other")
    inner = maker.tensors(layer, names.layer, is_first=False)
    made += [replace(tensor, name=f"transformer_layer.{tensor.name}") for tensor in inner]
    made += norm("final_layernorm", layer.norm, model.hidden)
    for tensor in made:
        name = f"{names.prediction}.*.{tensor.name}"
        yield replace(tensor, name=name, count=tensor.count * model.prediction_layers)


def _head(model: Model, names: ModelNames) -> Iterator[ParameterTensor]:
    base, hidden = _base(model, names), model.hidden
    width = model.embedding_dim or hidden
    if model.vocab and width != hidden:
        yield from linear(base + names.project_out, Linear(hidden, width), "other")
    if model.has_pooler:
        size = model.pooler_size or hidden
        yield from linear(base + names.pooler, Linear(hidden, size, bias=True), "other")
    if not model.has_head:
        return
    is_classifier = model.classes > 0
    if model.head_hidden is not None:
        dense = names.classifier_dense if is_classifier else names.head_dense
        yield from linear(dense, Linear(hidden, model.head_hidden, bias=True), "head")
        if model.head_norm is not None:
            yield from norm(names.head_norm, model.head_norm, model.head_hidden)
    if is_classifier:
        inputs = model.head_hidden or (width if model.vocab else hidden)
        path = names.classifier if model.head_hidden is None else names.classifier_out
        yield from linear(path, Linear(inputs, model.classes, bias=model.head_bias), "head")
    else:
        yield from _vocabulary_head(model, names, width)
    if model.has_next_sentence_head:
        yield from linear(names.next_sentence, Linear(hidden, 2, bias=True), "head")


def _vocabulary_head(model: Model, names: ModelNames, width: int) -> Iterator[ParameterTensor]:
    if not model.tied:
        yield _table(f"{names.head}.weight", (model.vocab, model.head_hidden or width), "head", 0)
    if model.head_bias:
        yield _table(names.head_bias, (model.vocab,), "head", 0)
        if names.untied_head_bias and not model.tied:
            yield _table(names.untied_head_bias, (model.vocab,), "head", 0)
