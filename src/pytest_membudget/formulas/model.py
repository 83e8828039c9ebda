"""What a model is made of, as far as memory goes: plain values, whatever file or code they were read from.

A ``Model`` says shapes, not code: two implementations of one model have the same parameters and keep
different activations. Sizes are whole, before anything is split over GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Norm:
    """Normalisation over the last dimension."""

    kind: Literal["rms", "layer"] = "rms"
    bias: bool = False
    """Layer norms mostly have one."""
    has_weight: bool = True


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """DeepSeek's multi-head latent attention: keys and values from one narrow projection."""

    query_rank: int | None
    """Of the queries' own narrow projection; None: queries are projected at once (V2-Lite)."""
    kv_rank: int
    rope_dim: int
    """Of each query and key, the part with rotary positions; the keys' part is shared by all heads."""
    nope_dim: int
    """The part without."""
    has_norms: bool = True
    """On the narrow projections (Megatron: with ``qk_layernorm`` only)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention block. ``heads * head_dim`` need not be the hidden size."""

    heads: int
    kv_heads: int
    head_dim: int
    """Of queries and keys; with latent attention ``nope_dim + rope_dim``."""
    value_dim: int | None = None
    """Of values; None: ``head_dim``."""
    qkv_bias: bool = False
    output_bias: bool = False
    fused_qkv: bool = False
    """One weight for queries, keys and values."""
    qk_norm: Literal["head", "projection"] | None = None
    """Norms on queries and keys: over each head (Qwen3, Gemma 3), or over the whole projection (OLMo 2)."""
    qk_norm_kind: Norm = Norm()
    """What kind they are of, where there are any."""
    sinks: bool = False
    """One learned number a head in the softmax's sum (gpt-oss)."""
    latent: LatentAttention | None = None
    """With it ``qkv_bias`` means biases on the narrow projections alone."""
    rotary_dim: int = 0
    """How much of each head turns by position; 0: no rotary positions."""
    relative_buckets: int = 0
    """T5's learned bias by distance: a table of buckets by heads, in the first layer of a stack alone."""
    window: int | None = None
    """Tokens that each looks back at; None: all."""
    dropout: float = 0.0

    @property
    def value_head_dim(self) -> int:
        """Width of a head's values."""
        return self.head_dim if self.value_dim is None else self.value_dim


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward block."""

    intermediate: int
    gated: bool = True
    """Two projections in, multiplied (SwiGLU, GEGLU)."""
    activation: str = "silu"
    bias: bool = False
    fused_gate_up: bool = False
    """One weight for both projections in (Phi-3)."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in a feed-forward block's place."""

    count: int
    per_token: int
    intermediate: int
    """Of one expert."""
    shared_intermediate: int = 0
    """Of the shared experts together, which every token passes."""
    shared_gate: bool = False
    """The shared experts' output is weighted by a gate (Qwen2-MoE)."""
    router_bias: bool = False
    """A correction an expert, not learned by gradients (DeepSeek-V3)."""
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    """On each expert's projections."""
    shared_bias: bool = False
    """On those of the shared experts."""
    router_linear_bias: bool = False
    """The router is a linear layer with a learned bias (gpt-oss)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer."""

    attention: Attention
    feed_forward: FeedForward | Experts
    norm: Norm = Norm()
    norms: int = 2
    """How many norms of the hidden size it has, without those of queries and keys."""
    cross_attention: Attention | None = None
    """Over an encoder's output."""
    is_parallel: bool = False
    """Attention and feed-forward read the same input (GPT-NeoX, Falcon, Phi-2)."""
    has_post_norms: bool = False
    """Norms come after each block too (Gemma 2 and 3), or only there (OLMo 2, BERT)."""
    dropout: float = 0.0
    """On each block's output."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers, identical ones in groups, in order."""

    groups: tuple[tuple[Layer, int], ...]
    hidden: int
    is_causal: bool = True
    final_norm: Norm | None = Norm()

    @property
    def layer_count(self) -> int:
        """How many layers."""
        return sum(count for _, count in self.groups)


@dataclass(frozen=True, slots=True)
class Patches:
    """How a vision transformer makes tokens of an image."""

    image_size: int
    patch_size: int
    channels: int = 3

    @property
    def count(self) -> int:
        """Patches an image, without a class token."""
        return (self.image_size // self.patch_size) ** 2


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer: one stack of layers, or an encoder and a decoder."""

    name: str
    architecture: str
    """The class that runs it, as ``LlamaForCausalLM``, or the family of a framework's arguments."""
    vocab: int
    """Rows of the token embedding; 0: none (vision)."""
    decoder: Stack
    """The only stack, of an encoder (BERT, ViT) too."""
    encoder: Stack | None = None
    tied: bool = False
    """Head and token embedding are one weight."""
    has_head: bool = True
    """A projection to the vocabulary, or to ``classes``."""
    head_bias: bool = False
    head_hidden: int | None = None
    """Width of a dense layer before the head (BERT's prediction head, RoBERTa's classifier)."""
    head_norm: Norm | None = None
    """Behind that dense layer."""
    embedding_dim: int | None = None
    """Width of the token embedding where it is not the hidden size (OPT-350M)."""
    positions: int = 0
    """Rows of a learned position embedding."""
    token_types: int = 0
    embedding_norm: Norm | None = None
    embedding_dropout: float = 0.0
    patches: Patches | None = None
    classes: int = 0
    has_pooler: bool = False
    """A dense layer on the first token."""
    pooler_size: int | None = None
    """Width of the pooler's output; None: the hidden size."""
    has_next_sentence_head: bool = False
    """BERT's second task in pretraining: two logits from the pooler's output."""
    prediction_layers: int = 0
    """Layers behind the stack that predict tokens further on (DeepSeek-V3's MTP). Each is one more layer like
    the stack's last, two norms, a projection from twice the hidden size, and a norm at its end."""
    max_positions: int = 0
    """The longest sequence that it was made for; 0: not said."""
    scales_embedding: bool = False
    """Token embeddings are multiplied by a number (Gemma)."""
    final_softcap: bool = False
    """Logits are squeezed by a tanh (Gemma 2)."""

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.decoder.hidden
