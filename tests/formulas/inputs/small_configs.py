"""Small, odd configurations: no two sizes of one alike, so that no dimension can stand for another."""

DECODER = {
    "vocab_size": 101, "hidden_size": 48, "intermediate_size": 74, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 66, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
QWEN_MOE = {
    **DECODER, "num_hidden_layers": 4, "num_experts": 5, "num_experts_per_tok": 2,
    "moe_intermediate_size": 20, "decoder_sparse_step": 2, "mlp_only_layers": [3],
}  # fmt: skip
DEEPSEEK = {
    **DECODER, "num_key_value_heads": 4, "kv_lora_rank": 12, "q_lora_rank": 14, "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 8, "v_head_dim": 9, "n_routed_experts": 6, "n_shared_experts": 2,
    "moe_intermediate_size": 21, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "num_experts_per_tok": 2,
}  # fmt: skip
GPT2 = {"vocab_size": 101, "n_positions": 50, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_inner": 70}
GPTJ = {**GPT2, "rotary_dim": 6}
NEOX = {
    "vocab_size": 101,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 70,
}
FALCON = {**NEOX, "ffn_hidden_size": 71}
del FALCON["intermediate_size"]
OPT = {**NEOX, "ffn_dim": 70, "max_position_embeddings": 33}
del OPT["intermediate_size"]
BERT = {**NEOX, "max_position_embeddings": 33, "type_vocab_size": 3, "id2label": {0: "a", 1: "b", 2: "c"}}
T5 = {
    "vocab_size": 101, "d_model": 48, "d_kv": 10, "d_ff": 70, "num_layers": 2, "num_decoder_layers": 3,
    "num_heads": 4, "relative_attention_num_buckets": 7,
}  # fmt: skip
VIT = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 70,
    "image_size": 36, "patch_size": 8, "num_channels": 2, "id2label": {0: "a", 1: "b", 2: "c"},
}  # fmt: skip

#: model_type, class, configuration
CASES = [
    ("llama", "LlamaForCausalLM", DECODER),
    ("llama", "LlamaForCausalLM", {**DECODER, "attention_bias": True, "mlp_bias": True, "head_dim": 10}),
    ("llama", "LlamaForCausalLM", {**DECODER, "tie_word_embeddings": True, "num_key_value_heads": None}),
    ("llama", "LlamaModel", DECODER),
    ("llama", "LlamaForSequenceClassification", {**DECODER, "num_labels": 3}),
    ("llama", "LlamaForTokenClassification", {**DECODER, "num_labels": 3}),
    ("mistral", "MistralForCausalLM", {**DECODER, "head_dim": 10}),
    ("mixtral", "MixtralForCausalLM", {**DECODER, "num_local_experts": 3}),
    ("qwen2", "Qwen2ForCausalLM", {**DECODER, "tie_word_embeddings": True}),
    ("qwen2", "Qwen2ForCausalLM", {**DECODER, "head_dim": 10}),
    ("qwen3", "Qwen3ForCausalLM", {**DECODER, "head_dim": 10, "attention_bias": True}),
    ("qwen3", "Qwen3ForSequenceClassification", {**DECODER, "head_dim": 10}),
    ("qwen2_moe", "Qwen2MoeForCausalLM", {**QWEN_MOE, "shared_expert_intermediate_size": 30}),
    (
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        {**QWEN_MOE, "shared_expert_intermediate_size": 30, "qkv_bias": False},
    ),
    ("qwen3_moe", "Qwen3MoeForCausalLM", {**QWEN_MOE, "head_dim": 10, "attention_bias": True}),
    ("gemma", "GemmaForCausalLM", {**DECODER, "head_dim": 10}),
    ("gemma", "GemmaForCausalLM", {**DECODER, "head_dim": 10, "tie_word_embeddings": False}),
    ("gemma2", "Gemma2ForCausalLM", {**DECODER, "head_dim": 10, "attention_bias": True}),
    ("gemma3_text", "Gemma3ForCausalLM", {**DECODER, "head_dim": 10, "num_hidden_layers": 7}),
    ("smollm3", "SmolLM3ForCausalLM", {**DECODER, "attention_bias": True, "num_hidden_layers": 5}),
    ("olmo2", "Olmo2ForCausalLM", {**DECODER, "attention_bias": True}),
    ("phi3", "Phi3ForCausalLM", DECODER),
    ("phi3", "Phi3ForCausalLM", {**DECODER, "tie_word_embeddings": True}),
    ("phi", "PhiForCausalLM", DECODER),
    ("phi", "PhiForCausalLM", {**DECODER, "qk_layernorm": True, "tie_word_embeddings": True}),
    ("phi", "PhiForSequenceClassification", DECODER),
    ("gpt2", "GPT2LMHeadModel", GPT2),
    ("gpt2", "GPT2LMHeadModel", {**GPT2, "add_cross_attention": True, "tie_word_embeddings": False}),
    ("gpt2", "GPT2Model", {**GPT2, "n_inner": None}),
    ("gptj", "GPTJForCausalLM", GPTJ),
    ("gptj", "GPTJForCausalLM", {**GPTJ, "tie_word_embeddings": True}),
    ("gpt_neox", "GPTNeoXForCausalLM", NEOX),
    (
        "gpt_neox",
        "GPTNeoXForCausalLM",
        {**NEOX, "attention_bias": False, "use_parallel_residual": False, "tie_word_embeddings": True},
    ),
    ("falcon", "FalconForCausalLM", FALCON),
    ("falcon", "FalconForCausalLM", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    (
        "falcon",
        "FalconForCausalLM",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ),
    (
        "falcon",
        "FalconForCausalLM",
        {**FALCON, "multi_query": False, "alibi": True, "bias": True, "parallel_attn": False},
    ),
    ("falcon", "FalconForSequenceClassification", {**FALCON, "ffn_hidden_size": None}),
    ("opt", "OPTForCausalLM", OPT),
    ("opt", "OPTForCausalLM", {**OPT, "word_embed_proj_dim": 20, "do_layer_norm_before": False}),
    ("opt", "OPTForCausalLM", {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}),
    ("opt", "OPTForCausalLM", {**OPT, "word_embed_proj_dim": 20, "tie_word_embeddings": False}),
    ("opt", "OPTForSequenceClassification", {**OPT, "word_embed_proj_dim": 20}),
    ("bert", "BertForMaskedLM", BERT),
    ("bert", "BertForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    ("bert", "BertModel", BERT),
    ("bert", "BertForPreTraining", BERT),
    ("bert", "BertLMHeadModel", {**BERT, "is_decoder": True}),
    ("bert", "BertForSequenceClassification", BERT),
    ("bert", "BertForTokenClassification", BERT),
    ("roberta", "RobertaForMaskedLM", BERT),
    ("roberta", "RobertaForMaskedLM", {**BERT, "tie_word_embeddings": False}),
    ("roberta", "RobertaModel", BERT),
    ("roberta", "RobertaForSequenceClassification", BERT),
    ("roberta", "RobertaForTokenClassification", BERT),
    ("t5", "T5ForConditionalGeneration", T5),
    (
        "t5",
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    ("t5", "T5Model", {**T5, "num_decoder_layers": None}),
    ("mt5", "MT5ForConditionalGeneration", T5),
    ("vit", "ViTForImageClassification", VIT),
    ("vit", "ViTForImageClassification", {**VIT, "qkv_bias": False, "image_size": [40, 40]}),
    ("vit", "ViTModel", {**VIT, "pooler_output_size": 11}),
    ("deepseek_v2", "DeepseekV2ForCausalLM", DEEPSEEK),
    (
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        {**DEEPSEEK, "q_lora_rank": None, "attention_bias": True, "mlp_bias": True},
    ),
    ("deepseek_v2", "DeepseekV2ForCausalLM", {**DEEPSEEK, "attention_bias": True}),
    ("deepseek_v3", "DeepseekV3ForCausalLM", DEEPSEEK),
    (
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        {**DEEPSEEK, "attention_bias": True, "tie_word_embeddings": True},
    ),
    ("gpt_oss", "GptOssForCausalLM", {**DECODER, "num_local_experts": 5, "head_dim": 10}),
    (
        "gpt_oss",
        "GptOssForCausalLM",
        {**DECODER, "num_local_experts": 5, "head_dim": 10, "attention_bias": False},
    ),
    ("llama4_text", "Llama4ForCausalLM", {**DECODER, "num_local_experts": 3, "head_dim": 10}),
    (
        "llama4_text",
        "Llama4ForCausalLM",
        {
            **DECODER,
            "num_local_experts": 3,
            "head_dim": 10,
            "intermediate_size_mlp": 33,
            "interleave_moe_layer_step": 2,
            "attention_bias": True,
        },
    ),
]
