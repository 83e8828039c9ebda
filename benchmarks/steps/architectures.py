"""Steps of further architectures of transformers and timm, entries of the registry; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .step import Step

_DECODER = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "use_cache": False}
_WIDE = {**_DECODER, "intermediate_size": 2816, "vocab_size": 50_000, "pad_token_id": 0}
_GROUPED = {**_WIDE, "num_key_value_heads": 4}
_ROWS = {"batch": 2, "length": 1024, "vocabulary": 50_000}
_AUTOCAST = {"batch": 8, "length": 512, "vocabulary": 30_000, "autocast": "bf16"}
_UNCACHED = {"use_cache": False}

#: of models of tokens: id, class, what its configuration is made of, sizes
_LANGUAGE: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("phi3", "Phi3ForCausalLM", _GROUPED, _ROWS),
    ("olmo2", "Olmo2ForCausalLM", _GROUPED, _ROWS),
    ("falcon", "FalconForCausalLM",
     {**_DECODER, "vocab_size": 50_000, "multi_query": True, "new_decoder_architecture": False}, _ROWS),
    ("bloom", "BloomForCausalLM",
     {"hidden_size": 1024, "n_layer": 4, "n_head": 16, "vocab_size": 50_000, "use_cache": False}, _ROWS),
    ("gptj", "GPTJForCausalLM",
     {"n_embd": 1024, "n_layer": 4, "n_head": 16, "rotary_dim": 32, "vocab_size": 50_000, "use_cache": False},
     _ROWS),
    ("starcoder2", "Starcoder2ForCausalLM", _GROUPED, _ROWS),
    ("cohere", "CohereForCausalLM", {**_GROUPED, "use_qk_norm": True}, _ROWS),
    ("deepseek-v3", "DeepseekV3ForCausalLM",
     {**_WIDE, "moe_intermediate_size": 512, "n_routed_experts": 16, "num_experts_per_tok": 4, "n_group": 4,
      "topk_group": 2, "first_k_dense_replace": 1, "q_lora_rank": 384, "kv_lora_rank": 128,
      "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "n_shared_experts": 1,
      "num_key_value_heads": 16}, _ROWS),
    ("olmoe", "OlmoeForCausalLM", {**_GROUPED, "num_experts": 16, "num_experts_per_tok": 4}, _ROWS),
    ("granite-experts", "GraniteMoeForCausalLM",
     {**_GROUPED, "num_local_experts": 8, "num_experts_per_tok": 2}, _ROWS),
    ("qwen3-next", "Qwen3NextForCausalLM",
     {**_GROUPED, "head_dim": 64, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256,
      "shared_expert_intermediate_size": 256, "linear_num_value_heads": 8, "linear_num_key_heads": 4,
      "linear_key_head_dim": 64, "linear_value_head_dim": 64}, {**_ROWS, "length": 512}),
    ("nemotron", "NemotronForCausalLM", _GROUPED, _ROWS),
    ("stablelm", "StableLmForCausalLM", _GROUPED, _ROWS),
    ("mamba", "MambaForCausalLM",
     {"hidden_size": 512, "num_hidden_layers": 4, "vocab_size": 50_000, "use_cache": False},
     {**_ROWS, "length": 256}),
    ("albert", "AlbertForMaskedLM", {"hidden_size": 768, "num_attention_heads": 12,
                                     "intermediate_size": 3072, "num_hidden_layers": 6}, _AUTOCAST),
    ("electra", "ElectraForMaskedLM", {"num_hidden_layers": 6}, _AUTOCAST),
    ("longformer", "LongformerForMaskedLM",
     {"vocab_size": 30_000, "attention_window": 128, "num_hidden_layers": 4,
      "max_position_embeddings": 1100}, {**_AUTOCAST, "batch": 2, "length": 1024}),
    ("mt5", "MT5ForConditionalGeneration",
     {"vocab_size": 60_000, "num_layers": 4, "decoder_start_token_id": 0, **_UNCACHED}, _ROWS),
    ("pegasus", "PegasusForConditionalGeneration",
     {"vocab_size": 50_000, "encoder_layers": 3, "decoder_layers": 3, **_UNCACHED}, _ROWS),
    ("nllb", "M2M100ForConditionalGeneration",
     {"vocab_size": 50_000, "encoder_layers": 3, "decoder_layers": 3, **_UNCACHED}, _ROWS),
    ("led", "LEDForConditionalGeneration",
     {"vocab_size": 50_000, "encoder_layers": 2, "decoder_layers": 2, "attention_window": 128,
      **_UNCACHED}, _ROWS),
    ("modern-bert", "ModernBertForMaskedLM",
     {"vocab_size": 30_000, "num_hidden_layers": 6, "pad_token_id": 0}, _AUTOCAST),
)  # fmt: skip

#: of models of images: id, class, what its configuration is made of
_VISION: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("beit", "BeitForImageClassification", {"num_hidden_layers": 6}),
    ("swin2", "Swinv2ForImageClassification", {}),
    ("convnext2", "ConvNextV2ForImageClassification", {}),
    ("dinov2", "Dinov2ForImageClassification", {"num_hidden_layers": 6, "image_size": 224}),
    ("poolformer", "PoolFormerForImageClassification", {}),
)

_TIMM: dict[str, dict[str, Any]] = {
    "mixer_b16_224": {"batch": 32, "autocast": "bf16"},
    "deit3_small_patch16_224": {"batch": 64, "autocast": "bf16"},
    "eva02_small_patch14_224": {"batch": 32, "autocast": "bf16"},
    "hiera_tiny_224": {"batch": 32, "autocast": "bf16"},
    "convnext_tiny": {"batch": 32, "autocast": "bf16", "channels_last": True},
    "resnet18": {"batch": 64, "autocast": "bf16", "channels_last": True},
    "xcit_small_12_p16_224": {"batch": 16},
    "coat_lite_small": {"batch": 16, "autocast": "bf16"},
}


def timm_steps(models: Mapping[str, Mapping[str, Any]]) -> tuple[Step, ...]:
    """A step of each of timm's ``models``, by name, with the arguments of ``libraries.timm_model``."""
    return tuple(
        Step(f"timm-{name}", "libraries", "timm_model", 8, {"name": name, **arguments}, seconds=3)
        for name, arguments in models.items()
    )


def _of_transformers(
    name: str, function: str, gib: float, model: str, options: Mapping[str, Any], **sizes: Any
) -> Step:
    config = model[: model.rindex("For")] + "Config"
    arguments = {"model": model, "config": config, "options": options, **sizes}
    return Step(f"transformers-{name}", "libraries", function, gib, arguments, classes=(model,), seconds=3)


ARCHITECTURES = (
    *(
        _of_transformers(name, "transformers_model", 20, model, options, **sizes)
        for name, model, options, sizes in _LANGUAGE
    ),
    *(
        _of_transformers(name, "transformers_vision", 8, model, options, batch=32, size=224)
        for name, model, options in _VISION
    ),
    *timm_steps(_TIMM),
)
