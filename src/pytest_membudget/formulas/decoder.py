"""A decoder's shape, and its parameters tensor by tensor: whole, before anything is split over GPUs."""

from __future__ import annotations

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

    @property
    def elements(self) -> int:
        """Of all of them."""
        return self.count * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Latent:
    """DeepSeek's latent attention (arXiv:2405.04434, section 2.1): keys and values from one narrow
    projection.
    """

    kv_rank: int
    rope_dim: int
    nope_dim: int
    query_rank: int | None = None
    """None: queries are projected at once (V2-Lite)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head, grouped-query or latent attention."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["head", "projection"] | None = None
    """Norms on queries and keys: over each head (Qwen3), or over the whole projection (OLMo 2)."""
    qk_norm_bias: bool = False
    sinks: bool = False
    """One learned number a head (gpt-oss)."""
    latent: Latent | None = None

    @property
    def cached(self) -> int:
        """Numbers that a KV cache holds for a token of a layer, as transformers caches them: keys and values
        of every key head, also with latent attention (5.23.0).
        """
        return self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense block, or ``count`` experts of which a token passes ``per_token``, and shared ones."""

    intermediate: int
    """The width; of one expert where there are any."""
    gated: bool = True
    bias: bool = False
    count: int = 0
    per_token: int = 0
    shared: int = 0
    """The shared experts' width together."""
    shared_gate: bool = False
    router_bias: bool = False
    shared_bias: bool = False

    @property
    def matrices(self) -> int:
        """Linear layers of a block: gate, up and down, or up and down."""
        return 3 if self.gated else 2


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    attention: Attention
    block: FeedForward
    norms: int = 2
    """Of the hidden size; without those of queries and keys."""
    norm_vectors: int = 1
    """Parameters a norm: 1 a weight (RMSNorm), 2 with a bias (LayerNorm), 0 none."""
    dropout: bool = False
    """On each block's output, and on attention's softmax."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Embedding, layers in order, final norm, head."""

    hidden: int
    layers: tuple[Layer, ...]
    vocab: int
    tied: bool = False
    positions: int = 0
    """Learned positions."""
    embedding_dim: int = 0
    """Of an embedding that is projected to the hidden size (OPT 350M); 0: the hidden size."""
    head_bias: bool = False
    final_norm: bool = True

    @property
    def dropout(self) -> bool:
        """Whether training drops out anything."""
        return any(layer.dropout for layer in self.layers)

    @property
    def is_mixture(self) -> bool:
        """Whether a layer has experts."""
        return any(layer.block.count for layer in self.layers)


def parameter_count(decoder: Decoder) -> int:
    """All parameters, tied ones once."""
    layers = sum(tensor.elements for layer in decoder.layers for tensor in tensors_of(layer, decoder.hidden))
    return layers + sum(tensor.elements for tensor in end_tensors(decoder))


@cache
def tensors_of(layer: Layer, hidden: int) -> tuple[Tensor, ...]:
    """The parameters of ``layer``."""
    return (*_attention(layer.attention, hidden), *_block(layer.block, hidden), *_norms(layer, hidden))


@cache
def end_tensors(decoder: Decoder) -> tuple[Tensor, ...]:
    """Embedding, positions, final norm and head; a tied head is the embedding."""
    hidden, vocab, last = decoder.hidden, decoder.vocab, decoder.layers[-1]
    width = decoder.embedding_dim or hidden
    found = [Tensor("embedding", vocab, width, "embedding", "out")]
    if decoder.positions:
        found.append(Tensor("positions", decoder.positions, hidden, "embedding"))
    if width != hidden:
        found.append(Tensor("project_in", hidden, width, "embedding"))
        found.append(Tensor("project_out", width, hidden, "final"))
    if decoder.final_norm and last.norm_vectors:
        found.append(Tensor("final_norm", 1, hidden, "final", count=last.norm_vectors))
    if not decoder.tied:
        found.append(Tensor("head", vocab, width, "head", "out", is_linear=True))
    if decoder.head_bias:
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


def _attention(attention: Attention, hidden: int) -> Iterator[Tensor]:
    bias, heads, width = attention.qkv_bias, attention.heads, attention.head_dim
    if attention.latent is not None:
        yield from _latent(attention, attention.latent, hidden)
    else:
        keys = attention.kv_heads
        yield from _linear("q_proj", heads * width, hidden, "out", bias=bias)
        yield from _linear("k_proj", keys * width, hidden, "out", bias=bias)
        yield from _linear("v_proj", keys * attention.value_dim, hidden, "out", bias=bias)
    yield from _linear("o_proj", hidden, heads * attention.value_dim, "in", bias=attention.output_bias)
    if attention.qk_norm is not None:
        wide = (
            (heads * width, attention.kv_heads * width)
            if attention.qk_norm == "projection"
            else (width, width)
        )
        for name, size in zip(("q_norm", "k_norm"), wide, strict=True):
            yield Tensor(name, 1, size, count=1 + attention.qk_norm_bias)
    if attention.sinks:
        yield Tensor("sinks", 1, heads, split="out")


def _latent(attention: Attention, latent: Latent, hidden: int) -> Iterator[Tensor]:
    heads, wide = attention.heads, latent.nope_dim + latent.rope_dim
    if latent.query_rank is None:
        yield from _linear("q_proj", heads * wide, hidden, "out")
    else:
        yield from _linear("q_a_proj", latent.query_rank, hidden, "", bias=attention.qkv_bias)
        yield Tensor("q_a_layernorm", 1, latent.query_rank)
        yield from _linear("q_b_proj", heads * wide, latent.query_rank, "out")
    yield from _linear(
        "kv_a_proj_with_mqa", latent.kv_rank + latent.rope_dim, hidden, "", bias=attention.qkv_bias
    )
    yield Tensor("kv_a_layernorm", 1, latent.kv_rank)
    yield from _linear("kv_b_proj", heads * (latent.nope_dim + attention.value_dim), latent.kv_rank, "out")


def _block(block: FeedForward, hidden: int) -> Iterator[Tensor]:
    if not block.count:
        yield from _feed_forward(block.intermediate, hidden, block.gated, block.bias, "layer", 1)
        return
    yield from _linear("router", block.count, hidden, "", bias=block.router_bias)
    yield from _feed_forward(block.intermediate, hidden, block.gated, block.bias, "experts", block.count)
    if block.shared:
        yield from _feed_forward(block.shared, hidden, block.gated, block.shared_bias, "layer", 1)
    if block.shared_gate:
        yield from _linear("shared_gate", 1, hidden, "")


def _feed_forward(
    width: int, hidden: int, gated: bool, bias: bool, part: Part, count: int
) -> Iterator[Tensor]:
    names = ("gate_proj", "up_proj") if gated else ("up_proj",)
    for name in names:
        yield from _linear(name, width, hidden, "out", bias=bias, part=part, count=count)
    yield from _linear("down_proj", hidden, width, "in", bias=bias, part=part, count=count)


def _norms(layer: Layer, hidden: int) -> Iterator[Tensor]:
    if layer.norm_vectors:
        yield Tensor("norms", 1, hidden, count=layer.norms * layer.norm_vectors)
