"""The parameter tensors of one transformer layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from .model import Attention, Experts, FeedForward, Layer, Norm
from .naming import AttentionNames, FeedForwardNames, LayerNames, ModelNames
from .parameter_tensors import ParameterTensor, Place

#: Which of a linear layer's dimensions tensor parallelism splits: its output (column-parallel, in Megatron's
#: words), its input (row-parallel), or none.
Split = Literal["output", "input", "none"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer before it has a place in a model."""

    inputs: int
    outputs: int
    split: Split = "none"
    bias: bool = False


def linear(path: str, shape: Linear, place: Place, *, is_input_first: bool = False) -> list[ParameterTensor]:
    """The weight of a linear layer called ``path``, [out, in] (or [in, out]), and its bias, [out]."""
    sizes = (shape.outputs, shape.inputs)
    split_dim = {"output": 0, "input": 1, "none": None}[shape.split]
    if is_input_first:
        sizes, split_dim = sizes[::-1], None if split_dim is None else 1 - split_dim
    tensors = [ParameterTensor(f"{path}.weight", sizes, place, split_dim=split_dim)]
    if shape.bias:
        bias_split = 0 if shape.split == "output" else None
        tensors.append(ParameterTensor(f"{path}.bias", (shape.outputs,), place, split_dim=bias_split))
    return tensors


def norm(path: str, kind: Norm, width: int) -> list[ParameterTensor]:
    """Weight and bias of a norm, as far as it has them; tensor parallelism splits neither."""
    kinds = [("weight", kind.has_weight), ("bias", kind.bias and kind.has_weight)]
    return [ParameterTensor(f"{path}.{name}", (width,), "norm") for name, is_there in kinds if is_there]


@dataclass(frozen=True, slots=True)
class LayerMaker:
    """Makes the tensors of layers of one model."""

    names: ModelNames
    hidden: int
    encoder_hidden: int
    """What cross attention reads."""
    experts: Literal["stacked", "separate"] | None = None
    """One tensor for all experts of a layer, or one an expert; None: as the implementation does."""

    def tensors(self, layer: Layer, names: LayerNames, *, is_first: bool) -> tuple[ParameterTensor, ...]:
        """The tensors of ``layer``; the first of a stack has the table of relative positions."""
        tensors = list(self._attention(layer.attention, names.attention, is_first=is_first))
        if layer.cross_attention is not None:
            tensors += self._cross_attention(layer.cross_attention, names.cross)
        if isinstance(layer.feed_forward, Experts):
            tensors += self._experts(layer.feed_forward, names)
        else:
            tensors += self._feed_forward(layer.feed_forward, names.feed_forward, "feed_forward")
        for path in norm_names(layer, names):
            tensors += norm(path, layer.norm, self.hidden)
        return tuple(tensors)

    def _linear(self, path: str, shape: Linear, place: Place) -> list[ParameterTensor]:
        return linear(path, shape, place, is_input_first=self.names.is_input_first)

    def _attention(
        self, attention: Attention, names: AttentionNames, *, is_first: bool
    ) -> Iterator[ParameterTensor]:
        prefix = names.prefix
        if attention.latent is not None:
            yield from self._latent(attention, names)
        else:
            yield from self._queries_keys_values(attention, names)
        inputs = attention.heads * attention.value_head_dim
        output = Linear(inputs, self.hidden, "input", attention.output_bias)
        yield from self._linear(prefix + names.output, output, "attention")
        yield from _qk_norms(attention, names)
        if attention.sinks:
            yield ParameterTensor(prefix + names.sinks, (attention.heads,), "attention", split_dim=0)
        if attention.relative_buckets and is_first:
            table = (attention.relative_buckets, attention.heads)
            yield ParameterTensor(f"{prefix}{names.relative}.weight", table, "position", split_dim=1)

    def _queries_keys_values(self, attention: Attention, names: AttentionNames) -> Iterator[ParameterTensor]:
        queries = attention.heads * attention.head_dim
        keys = attention.kv_heads * attention.head_dim
        values = attention.kv_heads * attention.value_head_dim
        widths = {names.query: queries, names.key: keys, names.value: values}
        if attention.fused_qkv:
            widths = {names.fused: queries + keys + values}
        for name, width in widths.items():
            shape = Linear(self.hidden, width, "output", attention.qkv_bias)
            yield from self._linear(names.prefix + name, shape, "attention")

    def _cross_attention(self, attention: Attention, names: AttentionNames) -> Iterator[ParameterTensor]:
        keys = attention.kv_heads * attention.head_dim
        values = attention.kv_heads * attention.value_head_dim
        widths = {names.key: keys, names.value: values}
        if attention.fused_qkv:
            widths = {names.fused_key_value: keys + values}
        for name, width in widths.items():
            shape = Linear(self.encoder_hidden, width, "output", attention.qkv_bias)
            yield from self._linear(names.prefix + name, shape, "attention")
        queries = Linear(self.hidden, attention.heads * attention.head_dim, "output", attention.qkv_bias)
        yield from self._linear(names.prefix + names.query, queries, "attention")
        inputs = attention.heads * attention.value_head_dim
        output = Linear(inputs, self.hidden, "input", attention.output_bias)
        yield from self._linear(names.prefix + names.output, output, "attention")

    def _latent(self, attention: Attention, names: AttentionNames) -> Iterator[ParameterTensor]:
        """The narrow projections and their norms are whole on every rank, as in Megatron and transformers."""
        latent, prefix = attention.latent, names.prefix
        assert latent is not None
        queries = attention.heads * attention.head_dim
        if latent.query_rank is None:
            yield from self._linear(prefix + names.query, Linear(self.hidden, queries, "output"), "attention")
        else:
            down = Linear(self.hidden, latent.query_rank, bias=attention.qkv_bias)
            yield from self._linear(prefix + names.query_down, down, "attention")
            if latent.has_norms:
                yield from norm(prefix + names.query_down_norm, attention.qk_norm_kind, latent.query_rank)
            up = Linear(latent.query_rank, queries, "output")
            yield from self._linear(prefix + names.query_up, up, "attention")
        down = Linear(self.hidden, latent.kv_rank + latent.rope_dim, bias=attention.qkv_bias)
        yield from self._linear(prefix + names.kv_down, down, "attention")
        if latent.has_norms:
            yield from norm(prefix + names.kv_down_norm, attention.qk_norm_kind, latent.kv_rank)
        outputs = attention.heads * (latent.nope_dim + attention.value_head_dim)
        up = Linear(latent.kv_rank, outputs, "output")
        yield from self._linear(prefix + names.kv_up, up, "attention")

    def _feed_forward(
        self, block: FeedForward, names: FeedForwardNames, place: Place
    ) -> Iterator[ParameterTensor]:
        into = {names.gate: 1, names.up: 1} if block.gated else {names.plain_up: 1}
        if block.gated and block.fused_gate_up:
            into = {names.fused: 2}
        for name, times in into.items():
            shape = Linear(self.hidden, times * block.intermediate, "output", block.bias)
            yield from self._linear(names.prefix + name, shape, place)
        down = Linear(block.intermediate, self.hidden, "input", block.bias)
        yield from self._linear(names.prefix + names.down, down, place)

    def _experts(self, experts: Experts, layer_names: LayerNames) -> Iterator[ParameterTensor]:
        names = layer_names.experts
        router = Linear(self.hidden, experts.count, bias=experts.router_linear_bias)
        yield from linear(names.router, router, "router")
        if experts.router_bias:
            yield ParameterTensor(
                names.correction, (experts.count,), "router", is_trained=False, number_type="fp32"
            )
        is_stacked = names.is_stacked if self.experts is None else self.experts == "stacked"
        yield from self._stacked(experts, layer_names) if is_stacked else self._separate(experts, layer_names)
        if experts.shared_intermediate:
            shared = FeedForward(
                experts.shared_intermediate,
                experts.gated,
                experts.activation,
                experts.shared_bias,
                names.shared_is_fused,
            )
            yield from self._feed_forward(shared, names.shared, "feed_forward")
        if experts.shared_gate:
            yield from linear(names.shared_gate, Linear(self.hidden, 1), "router")

    def _separate(self, experts: Experts, layer_names: LayerNames) -> Iterator[ParameterTensor]:
        names = layer_names.experts
        one = FeedForward(
            experts.intermediate,
            experts.gated,
            experts.activation,
            experts.bias,
            names.is_fused_when_separate,
        )
        for tensor in self._feed_forward(one, names.each, "expert"):
            yield replace(tensor, count=experts.count)

    def _stacked(self, experts: Experts, layer_names: LayerNames) -> Iterator[ParameterTensor]:
        names = layer_names.experts
        into = {names.stacked_up: 1}
        if experts.gated:
            separate = {names.stacked_gate: 1, names.stacked_up: 1}
            into = {names.stacked_gate_up: 2} if names.stacked_gate_up else separate
        for name, times in into.items():
            shape = Linear(self.hidden, times * experts.intermediate, "output", experts.bias)
            yield from _stack(name, shape, experts.count, is_input_first=names.is_input_first)
        down = Linear(experts.intermediate, self.hidden, "input", experts.bias)
        yield from _stack(names.stacked_down, down, experts.count, is_input_first=names.is_input_first)


def norm_names(layer: Layer, names: LayerNames) -> Iterable[str]:
    """The names of the norms of the hidden size in ``layer``."""
    if layer.is_parallel and names.parallel_norms and layer.norms == len(names.parallel_norms):
        return names.parallel_norms
    known = names.norms[: layer.norms]
    return (*known, *(f"norm_{number}" for number in range(len(known), layer.norms)))


def _qk_norms(attention: Attention, names: AttentionNames) -> Iterator[ParameterTensor]:
    if attention.qk_norm is None or attention.latent is not None:
        return
    is_whole = attention.qk_norm == "projection"
    for name, heads in ((names.query_norm, attention.heads), (names.key_norm, attention.kv_heads)):
        width = attention.head_dim * (heads if is_whole else 1)
        yield from norm(names.prefix + name, attention.qk_norm_kind, width)


def _stack(path: str, shape: Linear, count: int, *, is_input_first: bool) -> Iterator[ParameterTensor]:
    """All experts' weights as one tensor with the expert first: [E, out, in], or [E, in, out]."""
    for one in linear("", shape, "expert", is_input_first=is_input_first):
        split_dim = None if one.split_dim is None else one.split_dim + 1
        name = path if one.name == ".weight" else f"{path}_bias"
        yield ParameterTensor(name, (count, *one.shape), "expert", split_dim=split_dim)
