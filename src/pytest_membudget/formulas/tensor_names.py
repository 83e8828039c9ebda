"""What each implementation calls its parameters.

Transformers' names were read from the modules that version 5.23.0 builds; Megatron's and torchtitan's from
their code, whose commits are given at their entries.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from .naming import AttentionNames, ExpertNames, FeedForwardNames, LayerNames, ModelNames

_LLAMA: Final = ModelNames()
_QWEN2_MOE: Final = LayerNames(experts=ExpertNames(shared=FeedForwardNames(prefix="mlp.shared_expert.")))
_GEMMA2: Final = LayerNames(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
)
_GPT_OSS: Final = LayerNames(experts=ExpertNames(router="mlp.router", is_input_first=True))
_LLAMA4: Final = LayerNames(
    feed_forward=FeedForwardNames(prefix="feed_forward."),
    experts=ExpertNames(
        router="feed_forward.router",
        stacked_gate_up="feed_forward.experts.gate_up_proj",
        stacked_down="feed_forward.experts.down_proj",
        each=FeedForwardNames(prefix="feed_forward.experts.*."),
        is_input_first=True,
        shared=FeedForwardNames(prefix="feed_forward.shared_expert."),
    ),
)
_PHI: Final = ModelNames(
    layer=LayerNames(
        attention=AttentionNames(output="dense", query_norm="q_layernorm", key_norm="k_layernorm"),
        feed_forward=FeedForwardNames(plain_up="fc1", down="fc2"),
    ),
    final_norm="final_layernorm",
)
_GPT2: Final = ModelNames(
    base="transformer.",
    layers="h",
    layer=LayerNames(
        attention=AttentionNames(prefix="attn.", fused="c_attn", output="c_proj"),
        feed_forward=FeedForwardNames(plain_up="c_fc", down="c_proj"),
        norms=("ln_1", "ln_2", "ln_cross_attn"),
        cross=AttentionNames(
            prefix="crossattention.", query="q_attn", fused_key_value="c_attn", output="c_proj"
        ),
    ),
    embedding="wte",
    positions="wpe.weight",
    final_norm="ln_f",
    is_input_first=True,
)
_GPTJ: Final = ModelNames(
    base="transformer.",
    layers="h",
    layer=LayerNames(
        attention=AttentionNames(prefix="attn.", output="out_proj"),
        feed_forward=FeedForwardNames(plain_up="fc_in", down="fc_out"),
        norms=("ln_1",),
    ),
    embedding="wte",
    final_norm="ln_f",
)
_GPT_NEOX: Final = ModelNames(
    base="gpt_neox.",
    layer=LayerNames(
        attention=AttentionNames(prefix="attention.", fused="query_key_value", output="dense"),
        feed_forward=FeedForwardNames(plain_up="dense_h_to_4h", down="dense_4h_to_h"),
    ),
    embedding="embed_in",
    final_norm="final_layer_norm",
)
_FALCON: Final = ModelNames(
    base="transformer.",
    layers="h",
    layer=LayerNames(
        attention=AttentionNames(prefix="self_attention.", fused="query_key_value", output="dense"),
        feed_forward=FeedForwardNames(plain_up="dense_h_to_4h", down="dense_4h_to_h"),
        parallel_norms=("ln_attn", "ln_mlp"),
    ),
    embedding="word_embeddings",
    final_norm="ln_f",
)
_OPT: Final = ModelNames(
    layers="decoder.layers",
    layer=LayerNames(
        attention=AttentionNames(output="out_proj"),
        feed_forward=FeedForwardNames(prefix="", plain_up="fc1", down="fc2"),
        norms=("self_attn_layer_norm", "final_layer_norm"),
    ),
    embedding="decoder.embed_tokens",
    positions="decoder.embed_positions.weight",
    project_in="decoder.project_in",
    project_out="decoder.project_out",
    final_norm="decoder.final_layer_norm",
)
_BERT: Final = ModelNames(
    base="bert.",
    layers="encoder.layer",
    layer=LayerNames(
        attention=AttentionNames(
            prefix="attention.", query="self.query", key="self.key", value="self.value", output="output.dense"
        ),
        feed_forward=FeedForwardNames(prefix="", plain_up="intermediate.dense", down="output.dense"),
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
    ),
    embedding="embeddings.word_embeddings",
    positions="embeddings.position_embeddings.weight",
    token_types="embeddings.token_type_embeddings",
    embedding_norm="embeddings.LayerNorm",
    head="cls.predictions.decoder",
    head_bias="cls.predictions.bias",
    head_dense="cls.predictions.transform.dense",
    head_norm="cls.predictions.transform.LayerNorm",
    classifier="classifier",
    untied_head_bias="cls.predictions.decoder.bias",
)
_ROBERTA: Final = replace(
    _BERT,
    base="roberta.",
    head="lm_head.decoder",
    head_bias="lm_head.bias",
    head_dense="lm_head.dense",
    head_norm="lm_head.layer_norm",
    untied_head_bias="lm_head.decoder.bias",
)
_VIT: Final = ModelNames(
    base="vit.",
    layer=LayerNames(
        attention=AttentionNames(prefix="attention."),
        feed_forward=FeedForwardNames(plain_up="fc1", down="fc2"),
        norms=("layernorm_before", "layernorm_after"),
    ),
    positions="embeddings.position_embeddings",
    final_norm="layernorm",
    classifier="classifier",
)
_T5_ATTENTION: Final = AttentionNames(
    prefix="layer.0.SelfAttention.", query="q", key="k", value="v", output="o"
)
_T5: Final = ModelNames(
    base="",
    layers="decoder.block",
    encoder_layers="encoder.block",
    layer=LayerNames(
        attention=_T5_ATTENTION,
        feed_forward=FeedForwardNames(
            prefix="layer.2.DenseReluDense.", gate="wi_0", up="wi_1", plain_up="wi", down="wo"
        ),
        norms=("layer.0.layer_norm", "layer.1.layer_norm", "layer.2.layer_norm"),
        cross=replace(_T5_ATTENTION, prefix="layer.1.EncDecAttention."),
    ),
    encoder_layer=LayerNames(
        attention=_T5_ATTENTION,
        feed_forward=FeedForwardNames(
            prefix="layer.1.DenseReluDense.", gate="wi_0", up="wi_1", plain_up="wi", down="wo"
        ),
        norms=("layer.0.layer_norm", "layer.1.layer_norm"),
    ),
    embedding="shared",
    final_norm="decoder.final_layer_norm",
    encoder_final_norm="encoder.final_layer_norm",
)

#: Megatron-core's, of NVIDIA/Megatron-LM d98e8a64: models/gpt/gpt_model.py, models/bert/bert_model.py,
#: transformer/{attention,multi_latent_attention,mlp,multi_token_prediction}.py and transformer/moe. Norms as
#: the local layers name them; Transformer Engine keeps them in the projection behind
#: (``linear_qkv.layer_norm_weight``). BERT's layers are under ``encoder.layers``.
_MEGATRON_BLOCK: Final = FeedForwardNames(fused="linear_fc1", plain_up="linear_fc1", down="linear_fc2")
_MEGATRON: Final = ModelNames(
    base="",
    layers="decoder.layers",
    layer=LayerNames(
        attention=AttentionNames(
            prefix="self_attention.",
            query="linear_q_proj",
            output="linear_proj",
            fused="linear_qkv",
            query_norm="q_layernorm",
            key_norm="k_layernorm",
            sinks="core_attention.softmax_offset",
            query_down="linear_q_down_proj",
            query_down_norm="q_layernorm",
            query_up="linear_q_up_proj",
            kv_down="linear_kv_down_proj",
            kv_down_norm="kv_layernorm",
            kv_up="linear_kv_up_proj",
        ),
        feed_forward=_MEGATRON_BLOCK,
        experts=ExpertNames(
            router="mlp.router",
            correction="mlp.router.expert_bias",
            stacked_gate_up="mlp.experts.weight1",
            stacked_up="mlp.experts.weight1",
            stacked_down="mlp.experts.weight2",
            each=replace(_MEGATRON_BLOCK, prefix="mlp.experts.local_experts.*."),
            is_stacked=False,
            is_fused_when_separate=True,
            shared=replace(_MEGATRON_BLOCK, prefix="mlp.shared_experts."),
            shared_is_fused=True,
            shared_gate="mlp.shared_experts.gate",
        ),
        norms=("input_layernorm", "pre_mlp_layernorm"),
    ),
    embedding="embedding.word_embeddings",
    positions="embedding.position_embeddings.weight",
    token_types="embedding.tokentype_embeddings",
    final_norm="decoder.final_layernorm",
    head="output_layer",
    head_bias="output_layer.bias",
    next_sentence="binary_head",
)
#: Of pytorch/torchtitan b5bcd76c: models/common/{attention,feed_forward,decoder}.py.
_TORCHTITAN: Final = ModelNames(
    base="",
    layer=LayerNames(
        attention=AttentionNames(
            prefix="attention.",
            query="qkv_linear.wq",
            key="qkv_linear.wk",
            value="qkv_linear.wv",
            output="wo",
            fused="qkv_linear.wqkv",
        ),
        feed_forward=FeedForwardNames(prefix="feed_forward.", gate="w1", up="w3", down="w2"),
        norms=("attention_norm", "ffn_norm"),
    ),
    embedding="tok_embeddings",
)

#: By the beginning of the class's name.
_BY_FAMILY: Final = MappingProxyType(
    {
        "Llama": _LLAMA,
        "Mistral": _LLAMA,
        "Mixtral": _LLAMA,
        "SmolLM3": _LLAMA,
        "Qwen2": _LLAMA,
        "Qwen3": _LLAMA,
        "Qwen2Moe": replace(_LLAMA, layer=_QWEN2_MOE),
        "Qwen3Moe": _LLAMA,
        "Gemma": _LLAMA,
        "Gemma2": replace(_LLAMA, layer=_GEMMA2),
        "Gemma3": replace(_LLAMA, layer=_GEMMA2),
        "Gemma3Text": replace(_LLAMA, layer=_GEMMA2),
        "Olmo2": replace(
            _LLAMA, layer=LayerNames(norms=("post_attention_layernorm", "post_feedforward_layernorm"))
        ),
        "Phi": _PHI,
        "Phi3": _LLAMA,
        "DeepseekV2": _LLAMA,
        "DeepseekV3": _LLAMA,
        "GptOss": replace(_LLAMA, layer=_GPT_OSS),
        "Llama4": replace(_LLAMA, layer=_LLAMA4),
        "Llama4Text": replace(_LLAMA, layer=_LLAMA4),
        "GPT2": _GPT2,
        "GPTJ": _GPTJ,
        "GPTNeoX": _GPT_NEOX,
        "Falcon": _FALCON,
        "OPT": _OPT,
        "Bert": _BERT,
        "Roberta": _ROBERTA,
        "ViT": _VIT,
        "T5": _T5,
        "MT5": _T5,
        "megatron": _MEGATRON,
        "torchtitan": _TORCHTITAN,
    }
)
_TASK: Final = re.compile(r"(For[A-Z]\w*|LMHeadModel|EncoderModel|TextModel|Model)$")


def names_of(architecture: str) -> ModelNames:
    """The names that the implementation ``architecture`` uses; of an explicit shape Llama's."""
    return _BY_FAMILY.get(_TASK.sub("", architecture), _LLAMA)
