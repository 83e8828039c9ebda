"""Published models: what differs from their configuration class's defaults, and their published parameters.

Counts are those of the Hugging Face hub's safetensors index or of the model's own report; the source is where
a count can be looked up. Each was found again in 2026-11, digit for digit, in public repositories:

- in keras-team/keras-hub's presets (71453d08f), another implementation: Llama 3 8B, Llama 2 7B, Mistral,
  Mixtral, Qwen2.5, Qwen3 8B and 30B-A3B, Qwen1.5-MoE, Gemma 7B, Gemma 2 2B, Gemma 3 1B, Phi-3, GPT-2 and XL;
- in the model's card: GPT-NeoX;
- in repositories that quote the hub or have counted the loaded model: the other ones but Falcon 7B, whose
  checkpoint has the tied head's copy too. They are weaker witnesses, but not ours.
"""


def of(model_type, hidden=None, inner=None, layers=None, heads=None, **more):
    """A configuration: what differs from its class's defaults."""
    usual = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    return {"model_type": model_type} | {key: value for key, value in usual.items() if value} | more


#: name: (configuration, parameters, source)
# fmt: off
PUBLISHED = {
    "Llama-3-8B": (of("llama", inner=14336, vocab_size=128256, num_key_value_heads=8), 8_030_261_248,
        "hf.co/meta-llama/Meta-Llama-3-8B, safetensors"),
    "Llama-3-70B": (of("llama", 8192, 28672, 80, 64, vocab_size=128256, num_key_value_heads=8),
        70_553_706_496, "hf.co/meta-llama/Meta-Llama-3-70B, safetensors"),
    "Llama-3.1-405B": (of("llama", 16384, 53248, 126, 128, vocab_size=128256, num_key_value_heads=8),
        405_853_388_800, "hf.co/meta-llama/Llama-3.1-405B, safetensors"),
    "Llama-3.2-1B": (of("llama", hidden=2048, inner=8192, layers=16, vocab_size=128256,
        num_key_value_heads=8, head_dim=64, tie_word_embeddings=True), 1_235_814_400,
        "hf.co/meta-llama/Llama-3.2-1B, safetensors"),
    "Llama-2-7B": (of("llama"), 6_738_415_616, "hf.co/meta-llama/Llama-2-7b-hf, safetensors"),
    "Mistral-7B": (of("mistral"), 7_241_732_096, "hf.co/mistralai/Mistral-7B-v0.1, safetensors"),
    "Mixtral-8x7B": (of("mixtral"), 46_702_792_704, "hf.co/mistralai/Mixtral-8x7B-v0.1, safetensors"),
    "Qwen2.5-7B": (of("qwen2", 3584, 18944, 28, 28, vocab_size=152064, num_key_value_heads=4), 7_615_616_512,
        "hf.co/Qwen/Qwen2.5-7B, safetensors"),
    "Qwen3-8B": (of("qwen3", inner=12288, layers=36, num_key_value_heads=8), 8_190_735_360,
        "hf.co/Qwen/Qwen3-8B, safetensors"),
    "Qwen3-30B-A3B": (of("qwen3_moe", layers=48, head_dim=128), 30_532_122_624,
        "hf.co/Qwen/Qwen3-30B-A3B, safetensors"),
    "Qwen1.5-MoE-A2.7B": (of("qwen2_moe"), 14_315_784_192, "hf.co/Qwen/Qwen1.5-MoE-A2.7B, safetensors"),
    "Gemma-7B": (of("gemma"), 8_537_680_896, "hf.co/google/gemma-7b, safetensors"),
    "Gemma-2-2B": (of("gemma2"), 2_614_341_888, "hf.co/google/gemma-2-2b, safetensors"),
    "Gemma-3-1B": (of("gemma3_text", hidden=1152, inner=6912, heads=4, vocab_size=262144,
        num_key_value_heads=1), 999_885_952, "hf.co/google/gemma-3-1b-pt, safetensors"),
    "Phi-2": (of("phi", hidden=2560, inner=10240, layers=32), 2_779_683_840,
        "hf.co/microsoft/phi-2, safetensors"),
    "Phi-3-mini": (of("phi3"), 3_821_079_552, "hf.co/microsoft/Phi-3-mini-4k-instruct, safetensors"),
    "GPT-2": (of("gpt2"), 124_439_808, "hf.co/openai-community/gpt2, without its mask buffers"),
    "GPT-2-XL": (of("gpt2", n_embd=1600, n_layer=48, n_head=25), 1_557_611_200,
        "hf.co/openai-community/gpt2-xl, without its mask buffers"),
    "GPT-J-6B": (of("gptj"), 6_050_882_784, "github.com/kingoflolz/mesh-transformer-jax, README"),
    "GPT-NeoX-20B": (of("gpt_neox"), 20_554_567_680,
        "hf.co/EleutherAI/gpt-neox-20b, table of hyperparameters"),
    "Pythia-6.9B": (of("gpt_neox", 4096, 16384, 32, 32), 6_857_302_016,
        "hf.co/EleutherAI/pythia-6.9b, table of parameters"),
    # the checkpoint writes the tied head out once more: 65,024 rows of 4,544
    "Falcon-7B": (of("falcon"), 7_217_189_760 - 65024 * 4544, "hf.co/tiiuae/falcon-7b, safetensors"),
    "OPT-125M": (of("opt"), 125_239_296, "hf.co/facebook/opt-125m"),
    "OPT-350M": (of("opt", hidden=1024, layers=24, heads=16, ffn_dim=4096, word_embed_proj_dim=512,
        do_layer_norm_before=False), 331_196_416, "hf.co/facebook/opt-350m"),
    "SmolLM2-135M": (of("llama", 576, 1536, 30, 9, vocab_size=49152, num_key_value_heads=3,
        tie_word_embeddings=True), 134_515_008, "hf.co/HuggingFaceTB/SmolLM2-135M, safetensors"),
    "SmolLM3-3B": (of("smollm3"), 3_075_098_624, "hf.co/HuggingFaceTB/SmolLM3-3B, safetensors"),
    "DeepSeek-V2-Lite": (of("deepseek_v2", 2048, 10944, 27, 16, moe_intermediate_size=1408,
        q_lora_rank=None, first_k_dense_replace=1, num_experts_per_tok=6), 15_706_484_224,
        "hf.co/deepseek-ai/DeepSeek-V2-Lite, safetensors"),
    "DeepSeek-V2": (of("deepseek_v2", 5120, 12288, 60, 128, moe_intermediate_size=1536,
        n_routed_experts=160, first_k_dense_replace=1, num_experts_per_tok=6), 235_741_434_880,
        "hf.co/deepseek-ai/DeepSeek-V2, safetensors"),
    "DeepSeek-V3": (of("deepseek_v3"), 671_026_419_200,
        "hf.co/deepseek-ai/DeepSeek-V3, its checkpoint without MTP and scales; README_WEIGHTS.md says 671B"),
    "gpt-oss-120b": (of("gpt_oss"), 116_829_156_672,
        "gpt-oss model card (arXiv 2508.10925), table 1: 116.83B"),
    "gpt-oss-20b": (of("gpt_oss", layers=24, num_local_experts=32), 20_914_757_184,
        "gpt-oss model card (arXiv 2508.10925), table 1: 20.91B"),
    # less its vision tower and projector, as transformers 5.23.0 builds them from the hub's configuration
    "Llama-4-Scout": (of("llama4_text"), 108_641_793_536 - 871_932_416,
        "hf.co/meta-llama/Llama-4-Scout-17B-16E, safetensors"),
}
# fmt: on
