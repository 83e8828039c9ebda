"""What an implementation calls its parameters: the words that a naming needs, with Llama's as defaults.

They are names of modules, without the ``.weight`` behind them; a bare parameter's name ends in its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionNames:
    """The modules of one attention block."""

    prefix: str = "self_attn."
    query: str = "q_proj"
    key: str = "k_proj"
    value: str = "v_proj"
    output: str = "o_proj"
    fused: str = "qkv_proj"
    """Queries, keys and values in one."""
    fused_key_value: str = "kv_proj"
    """Keys and values in one, next to the queries: in cross attention."""
    query_norm: str = "q_norm"
    key_norm: str = "k_norm"
    sinks: str = "sinks"
    relative: str = "relative_attention_bias"
    query_down: str = "q_a_proj"
    query_down_norm: str = "q_a_layernorm"
    query_up: str = "q_b_proj"
    kv_down: str = "kv_a_proj_with_mqa"
    kv_down_norm: str = "kv_a_layernorm"
    kv_up: str = "kv_b_proj"


@dataclass(frozen=True, slots=True)
class FeedForwardNames:
    """The modules of one feed-forward block."""

    prefix: str = "mlp."
    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    fused: str = "gate_up_proj"
    plain_up: str = "up_proj"
    """The projection in of a block without a gate."""


@dataclass(frozen=True, slots=True)
class ExpertNames:
    """The modules of one mixture of experts."""

    router: str = "mlp.gate"
    correction: str = "mlp.gate.e_score_correction_bias"
    stacked_gate_up: str = "mlp.experts.gate_up_proj"
    """One tensor for all experts of a layer. Empty: ``stacked_gate`` and ``stacked_up`` are two."""
    stacked_gate: str = "mlp.experts.gate_proj"
    stacked_up: str = "mlp.experts.up_proj"
    stacked_down: str = "mlp.experts.down_proj"
    each: FeedForwardNames = FeedForwardNames(prefix="mlp.experts.*.")
    """One tensor an expert."""
    is_stacked: bool = True
    """How the implementation holds them."""
    is_input_first: bool = False
    """Stacked tensors are [expert, in, out] and not [expert, out, in]."""
    is_fused_when_separate: bool = False
    """Tensors an expert hold gate and up projection in one."""
    shared: FeedForwardNames = FeedForwardNames(prefix="mlp.shared_experts.")
    shared_is_fused: bool = False
    shared_gate: str = "mlp.shared_expert_gate"


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The modules of one layer."""

    attention: AttentionNames = AttentionNames()
    feed_forward: FeedForwardNames = FeedForwardNames()
    experts: ExpertNames = ExpertNames()
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    parallel_norms: tuple[str, ...] = ()
    """Where two norms feed a parallel layer."""
    cross: AttentionNames = AttentionNames(prefix="cross_attn.")


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The modules of a model. Names below the base model, save those of heads."""

    base: str = "model."
    """Before the names of the base model, in a class with a head."""
    layers: str = "layers"
    encoder_layers: str = "encoder.layers"
    layer: LayerNames = LayerNames()
    encoder_layer: LayerNames | None = None
    """None: as ``layer``."""
    embedding: str = "embed_tokens"
    positions: str = "embed_positions.weight"
    token_types: str = "token_type_embeddings"
    embedding_norm: str = "embed_norm"
    project_in: str = "project_in"
    project_out: str = "project_out"
    class_token: str = "embeddings.cls_token"
    patches: str = "embeddings.patch_embeddings.projection"
    final_norm: str = "norm"
    encoder_final_norm: str = "encoder.final_norm"
    pooler: str = "pooler.dense"
    head: str = "lm_head"
    head_bias: str = "lm_head.bias"
    head_dense: str = "lm_head.dense"
    head_norm: str = "lm_head.layer_norm"
    next_sentence: str = "cls.seq_relationship"
    classifier: str = "score"
    classifier_dense: str = "classifier.dense"
    classifier_out: str = "classifier.out_proj"
    """The classifier itself, where a dense layer comes before it."""
    untied_head_bias: str = ""
    """A second bias, which an untied head has besides (BERT: tied heads share it)."""
    prediction: str = "mtp.layers"
    is_input_first: bool = False
    """Weights of linear layers are [in, out], as GPT-2's ``Conv1D`` has them."""
