"""Small but real models of every family that is traced: some 2 layers of hidden 1,024."""

_DECODER = {
    "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "use_cache": False, "max_position_embeddings": 2048,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_LATENT = {
    "num_key_value_heads": 16, "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 128, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128, "n_group": 4, "topk_group": 2,
}  # fmt: skip


def order(name, model_type, without=(), model_class=None, **config):
    """What a body is told: classes and configuration."""
    known = {key: value for key, value in _DECODER.items() if key not in without}
    return {
        "config_class": f"{name}Config",
        "model_class": model_class or f"{name}ForCausalLM",
        "model_type": model_type,
        "config": known | config,
    }


_PLAIN = ("num_key_value_heads",)
MODELS = {
    "llama": order("Llama", "llama"),
    "mistral": order("Mistral", "mistral", sliding_window=128),
    "qwen2": order("Qwen2", "qwen2"),
    "qwen3": order("Qwen3", "qwen3", head_dim=64),
    "phi3": order("Phi3", "phi3", sliding_window=None),
    "gemma": order("Gemma", "gemma", head_dim=64),
    # as transformers has it since it refuses SDPA for the scores' soft caps (5.23; 5.20 takes it)
    "gemma2": order("Gemma2", "gemma2", head_dim=64) | {"attention": "eager"},
    "gemma3": order("Gemma3Text", "gemma3_text", head_dim=64, model_class="Gemma3ForCausalLM"),
    "olmo2": order("Olmo2", "olmo2"),
    "smollm3": order("SmolLM3", "smollm3"),
    "gpt2": {
        "config_class": "GPT2Config",
        "model_class": "GPT2LMHeadModel",
        "model_type": "gpt2",
        "config": {
            "vocab_size": 32000,
            "n_embd": 1024,
            "n_layer": 4,
            "n_head": 16,
            "n_positions": 1024,
            "use_cache": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    },
    "opt": order("OPT", "opt", ("intermediate_size", *_PLAIN), ffn_dim=4096, word_embed_proj_dim=1024),
    "gpt_neox": order("GPTNeoX", "gpt_neox", _PLAIN, intermediate_size=4096),
    "falcon": order("Falcon", "falcon", ("intermediate_size", *_PLAIN)),
    "phi": order("Phi", "phi", _PLAIN, intermediate_size=4096),
    "bert": order(
        "Bert", "bert", ("use_cache", *_PLAIN), model_class="BertForMaskedLM", intermediate_size=4096
    ),
    "vit": {
        "config_class": "ViTConfig",
        "model_class": "ViTForImageClassification",
        "model_type": "vit",
        "config": {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
        },
        "rows": 8,
    },
    "t5": {
        "config_class": "T5Config",
        "model_class": "T5ForConditionalGeneration",
        "model_type": "t5",
        "config": {
            "vocab_size": 32000,
            "d_model": 1024,
            "d_kv": 64,
            "d_ff": 2816,
            "num_layers": 4,
            "num_heads": 16,
            "use_cache": False,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "feed_forward_proj": "gated-gelu",
        },
    },
    "mixtral": order(
        "Mixtral",
        "mixtral",
        num_local_experts=8,
        num_experts_per_tok=2,
        intermediate_size=1024,
        sliding_window=None,
    ),
    "qwen2_moe": order(
        "Qwen2Moe",
        "qwen2_moe",
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=1024,
    ),
    "qwen3_moe": order(
        "Qwen3Moe",
        "qwen3_moe",
        num_experts=16,
        num_experts_per_tok=4,
        moe_intermediate_size=512,
        head_dim=64,
        norm_topk_prob=True,
    ),
    "deepseek_v2": order("DeepseekV2", "deepseek_v2", q_lora_rank=None, **_LATENT),
    "deepseek_v3": order("DeepseekV3", "deepseek_v3", q_lora_rank=256, **_LATENT),
}


def with_small_vocabulary(order):
    """The same with 512 rows, so that layers and not logits are its peak."""
    config = order["config"]
    return order | {"config": config | {"vocab_size": 512} if "vocab_size" in config else config}


def with_two_layers(order):
    """The same with two layers, which is what a layer's own figures need."""
    names = {"num_hidden_layers", "n_layer", "num_layers"} & order["config"].keys()
    return order | {"config": order["config"] | dict.fromkeys(names, 2)}
