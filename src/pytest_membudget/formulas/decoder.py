"""A decoder's shape, and its parameters tensor by tensor: whole, before anything is split over GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

#: How tensor parallelism splits a tensor: a linear's outputs, its inputs, or not at all.
Split = Literal["out", "in", ""]
#: Where a tensor belongs.
Part = Literal["layer", "experts", "embedding", "head", "final"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """``count`` parameters of one shape; a vector has one row."""

    name: str
    rows: int
    columns: int
    part: Part = "layer"
    split: Split = ""
    count: int = 1
    is_linear: bool = False
    """Whether it is a linear layer's weight."""
    sharing: int = 1
    """Of a rank's part of it: how many ranks hold the same part, and may share its states."""

    @property
    def elements(self) -> int:
        """Of all of them."""
        return self.count * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder, or one of its layers, by the keys of ``model.shape``; 0 is what is usual, or not there."""

    hidden: int = 0
    layers: int = 0
    heads: int = 0
    vocab: int = 0
    intermediate: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    value_dim: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: str | None = None
    """Norms on queries and keys: over each ``head`` (Qwen3), or the whole ``projection`` (OLMo 2)."""
    sinks: bool = False
    """One learned number a head (gpt-oss)."""
    kv_rank: int = 0
    """This and the next three: DeepSeek's latent attention (arXiv:2405.04434, section 2.1), whose keys and
    values come from one narrow projection."""
    rope_dim: int = 0
    nope_dim: int = 0
    query_rank: int = 0
    """0: queries are projected at once (V2-Lite)."""
    gated: bool = True
    norm: str = "rms"
    norms: int = 2
    """Of the hidden size; without those of queries and keys."""
    dropout: bool = False
    """On each block's output, and on attention's softmax."""
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    expert_bias: bool = False
    expert_layers: tuple[int, ...] | None = None
    """The layers that have experts; None: those after the first ``dense_layers``."""
    dense_layers: int = 0
    dense_intermediate: int = 0
    shared_intermediate: int = 0
    """The shared experts' width together."""
    shared_gate: bool = False
    router_bias: bool = False
    positions: int = 0
    """Learned positions."""
    embedding_dim: int = 0
    """Of an embedding that is projected to the hidden size (OPT 350M)."""
    head_bias: bool = False
    tied: bool = False
    final_norm: bool = True

    @property
    def width(self) -> int:
        """Of a layer's feed-forward block, or of one expert."""
        return self.expert_intermediate if self.experts else self.intermediate

    @property
    def matrices(self) -> int:
        """Linear layers of a feed-forward block: gate, up and down, or up and down."""
        return 3 if self.gated else 2

    @property
    def norm_vectors(self) -> int:
        """Parameters a norm: a weight (RMSNorm), a bias too (LayerNorm), or none."""
        return {"rms": 1, "layer": 2, "layer_without_weight": 0}[self.norm]

    @property
    def cached(self) -> int:
        """Numbers that a KV cache holds for a token of a layer, as transformers caches them: keys and values
        of every key head, also with latent attention (5.23.0).
        """
        return self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Decoder:
    """Embedding, layers in order, final norm, head."""

    shape: Shape
    layers: tuple[Shape, ...]
    """Each as a shape that has experts, or none."""


def parameter_count(decoder: Decoder) -> int:
    """All parameters, tied ones once."""
    layers = sum(tensor.elements for layer in decoder.layers for tensor in tensors_of(layer))
    return layers + sum(tensor.elements for tensor in end_tensors(decoder.shape))


@cache
def tensors_of(layer: Shape) -> tuple[Tensor, ...]:
    """The parameters of ``layer``."""
    return (*_attention(layer), *_block(layer), *_norms(layer))


@cache
def end_tensors(shape: Shape) -> tuple[Tensor, ...]:
    """Embedding, positions, final norm and head; a tied head is the embedding."""
    hidden, vocab = shape.hidden, shape.vocab
    width = shape.embedding_dim or hidden
    found = [Tensor("embedding", vocab, width, "embedding", "out")]
    if shape.positions:
        found.append(Tensor("positions", shape.positions, hidden, "embedding"))
    if width != hidden:
        found.append(Tensor("project_in", hidden, width, "embedding"))
        found.append(Tensor("project_out", width, hidden, "final"))
    if shape.final_norm and shape.norm_vectors:
        found.append(Tensor("final_norm", 1, hidden, "final", count=shape.norm_vectors))
    if not shape.tied:
        found.append(Tensor("head", vocab, width, "head", "out", is_linear=True))
    if shape.head_bias:
        found.append(Tensor("head_bias", 1, vocab, "head", "out"))
    return tuple(found)


def _linear(
    name: str,
    rows: int,
    columns: int,
    split: Split,
    *,
    bias: bool = False,
    part: Part = "layer",
    count: int = 1,
) -> Iterator[Tensor]:
    yield Tensor(name, rows, columns, part, split, count, is_linear=True)
    if bias:
        yield Tensor(f"{name}.bias", 1, rows, part, "out" if split == "out" else "", count)


def _attention(layer: Shape) -> Iterator[Tensor]:
    bias, heads, width, hidden = layer.qkv_bias, layer.heads, layer.head_dim, layer.hidden
    if layer.kv_rank:
        yield from _latent(layer)
    else:
        keys = layer.kv_heads
        yield from _linear("q_proj", heads * width, hidden, "out", bias=bias)
        yield from _linear("k_proj", keys * width, hidden, "out", bias=bias)
        yield from _linear("v_proj", keys * layer.value_dim, hidden, "out", bias=bias)
    yield from _linear("o_proj", hidden, heads * layer.value_dim, "in", bias=layer.output_bias)
    if layer.qk_norm in ("head", "projection"):
        for name, count in (("q_norm", heads), ("k_norm", layer.kv_heads)):
            size = width * (count if layer.qk_norm == "projection" else 1)
            yield Tensor(name, 1, size, count=1 + (layer.norm == "layer"))
    if layer.sinks:
        yield Tensor("sinks", 1, heads, split="out")


def _latent(layer: Shape) -> Iterator[Tensor]:
    heads, rank, hidden, bias = layer.heads, layer.kv_rank, layer.hidden, layer.qkv_bias
    wide = layer.nope_dim + layer.rope_dim
    if not layer.query_rank:
        yield from _linear("q_proj", heads * wide, hidden, "out")
    else:
        yield from _linear("q_a_proj", layer.query_rank, hidden, "", bias=bias)
        yield Tensor("q_a_layernorm", 1, layer.query_rank)
        yield from _linear("q_b_proj", heads * wide, layer.query_rank, "out")
    yield from _linear("kv_a_proj_with_mqa", rank + layer.rope_dim, hidden, "", bias=bias)
    yield Tensor("kv_a_layernorm", 1, rank)
    yield from _linear("kv_b_proj", heads * (layer.nope_dim + layer.value_dim), rank, "out")


def _block(layer: Shape) -> Iterator[Tensor]:
    if not layer.experts:
        yield from _feed_forward(layer, layer.width, layer.mlp_bias, "layer", 1)
        return
    yield from _linear("router", layer.experts, layer.hidden, "", bias=layer.router_bias)
    yield from _feed_forward(layer, layer.width, layer.expert_bias, "experts", layer.experts)
    if layer.shared_intermediate:
        yield from _feed_forward(layer, layer.shared_intermediate, layer.mlp_bias, "layer", 1)
    if layer.shared_gate:
        yield from _linear("shared_gate", 1, layer.hidden, "")


def _feed_forward(layer: Shape, width: int, bias: bool, part: Part, count: int) -> Iterator[Tensor]:
    for name in ("gate_proj", "up_proj") if layer.gated else ("up_proj",):
        yield from _linear(name, width, layer.hidden, "out", bias=bias, part=part, count=count)
    yield from _linear("down_proj", layer.hidden, width, "in", bias=bias, part=part, count=count)


def _norms(layer: Shape) -> Iterator[Tensor]:
    if layer.norm_vectors:
        yield Tensor("norms", 1, layer.hidden, count=layer.norms * layer.norm_vectors)
