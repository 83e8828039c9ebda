"""Steps of kinds of code that nothing was made for: entries of the registry; imports no torch."""

from __future__ import annotations

from typing import Any

from .step import Step

_LLAMA = ("LlamaConfig", "LlamaForCausalLM")

RESEARCH = (
    Step("masked-autoencoder", "research_vision", "masked_autoencoder", 4, {"batch": 64, "patches": 196}),
    Step("matched-detection", "research_vision", "matched_detection", 4,
         {"batch": 8, "queries": 100, "objects": 20}),
    Step("radiance-field", "research_vision", "radiance_field", 6, {"rays": 4096, "samples": 96}),
    Step("denoised-tokens", "research_vision", "denoised_tokens", 5, {"batch": 32, "length": 256}),
    Step("quantized-codes", "research_vision", "quantized", 2, {"rows": 16_384, "codes": 4096}),
    Step("momentum-contrast", "research_vision", "momentum_contrast", 2, {"batch": 512, "queue": 65_536}),
    Step("self-distilled", "research_vision", "self_distilled", 8, {"batch": 16, "local_views": 6}),
    Step("penalized-critic", "research_models", "penalized_critic", 1, {"batch": 2048, "critic_steps": 3}),
    Step("coupled-flow", "research_models", "coupled_flow", 3, {"rows": 8192, "layers": 8}),
    Step("sampled-energies", "research_models", "sampled_energies", 1, {"rows": 4096, "moves": 20}),
    Step("laplacian-field", "research_models", "laplacian_field", 4, {"points": 50_000}),
    Step("meta-learned", "research_models", "meta_learned", 4, {"tasks": 32, "rows": 100, "inner": 3}),
    Step("at-equilibrium", "research_models", "at_equilibrium", 1, {"rows": 16_384}),
    Step("made-weights", "research_models", "made_weights", 1, {"tasks": 64, "rows": 1000}),
    Step("passed-messages", "research_models", "passed_messages", 6,
         {"nodes": 50_000, "edges": 400_000, "layers": 3}),
)  # fmt: skip

SEQUENCES = (
    Step("windowed-rotary", "research_sequences", "windowed_rotary", 2,
         {"batch": 4, "length": 777, "new_tokens": 8}),
    Step("scanned-attention", "research_sequences", "scanned_attention", 4, {"batch": 16, "length": 128}),
    Step("long-convolutions", "research_sequences", "long_convolutions", 2, {"batch": 16, "length": 2048}),
    Step("mixture-of-depths", "research_sequences", "mixture_of_depths", 2, {"batch": 8, "length": 1024}),
    Step("preferred-answers", "research_sequences", "preferred", 6, {"batch": 4, "length": 600},
         classes=_LLAMA),
    Step("grouped-policy", "research_sequences", "grouped_policy", 8,
         {"group": 16, "length": 48, "epochs": 2}, classes=_LLAMA, seconds=3),
    Step("adapted-by-hand", "research_sequences", "adapted_by_hand", 4, {"length": 512, "rank": 16},
         classes=_LLAMA),
    Step("taught-words", "research_sequences", "taught_words", 6, {"rows": 256, "vocabulary": 50_257}),
    Step("proximal-policy", "research_sequences", "proximal_policy", 1, {"steps": 128, "epochs": 2}),
    Step("soft-actor", "research_sequences", "soft_actor", 1, {"batch": 4096, "buffer": 50_000}),
)  # fmt: skip

WRITTEN_OPTIMIZERS = (
    *(
        Step(f"written-{name}", "written_optimizers", "written", gib, {"optimizer": name, **sizes},
             classes=_LLAMA)
        for name, gib, sizes in (
            ("orthogonal", 3, {}), ("schedule-free", 5, {}), ("projected", 3, {}),
            ("lion", 2, {"dtype": "bf16"}),
            ("factored", 4, {}), ("adan", 5, {}), ("lamb", 3, {}), ("adam-capturable-fused", 4, {}),
            ("sgd-fused", 3, {}), ("rmsprop-centered-loop", 4, {}), ("radam-decoupled", 4, {}),
        )
    ),
    Step("sharpness-aware", "written_optimizers", "sharpness_aware", 1, {"rows": 8192}),
    Step("states-on-host", "written_optimizers", "states_on_host", 3, {"rows": 4096}),
    Step("differentiable-updates", "written_optimizers", "differentiable_updates", 1,
         {"rows": 8192, "inner": 8}),
    Step("looked-ahead", "written_optimizers", "looked_ahead", 1, {"rows": 4096}),
)  # fmt: skip

MECHANISMS = (
    Step("graphed-callables", "mechanisms", "graphed_callables", 1, {"rows": 4096}),
    Step("tangents", "mechanisms", "tangents", 2, {"rows": 1024, "directions": 64}),
    Step("ensembled", "mechanisms", "ensembled", 2, {"members": 16, "rows": 2048}),
    Step("hooked", "mechanisms", "hooked", 2, {"rows": 4096}),
    Step("packed-activations", "mechanisms", "packed_activations", 2, {"rows": 8192}),
    Step("micro-batches", "mechanisms", "micro_batches", 2, {"count": 6, "rows": 2048}),
    Step("fsdp2-kept", "mechanisms", "sharded_variant", 4, {"kind": "kept"}),
    Step("fsdp2-on-host", "mechanisms", "sharded_variant", 4, {"kind": "on-host"}),
    Step("tensor-parallel", "mechanisms", "tensor_parallel", 1, {"batch": 8}),
    Step("biased-attention", "mechanisms", "biased_attention", 2, {"batch": 8, "length": 1000}),
    Step("contrasted-pairs", "mechanisms", "contrasted", 3, {"pairs": 8192}),
    Step("mined-triplets", "mechanisms", "mined_triplets", 2, {"batch": 4096}),
    Step("click-rates", "mechanisms", "click_rates", 4, {"rows": 8192, "tables": 8}),
)  # fmt: skip

MORE_LIBRARIES = (
    Step("equivariant", "more_libraries", "equivariant", 4, {"nodes": 2000, "edges": 20_000}, seconds=3),
    Step("gaussian-process", "more_libraries", "gaussian_process", 4, {"points": 8000, "exact": True},
         seconds=3),
    Step("inducing-points", "more_libraries", "gaussian_process", 2, {"points": 16_384, "exact": False}),
    Step("ranked-sentences", "more_libraries", "ranked_sentences", 3,
         {"batch": 128, "length": 128, "cached": False}, seconds=3),
    Step("ranked-sentences-cached", "more_libraries", "ranked_sentences", 3,
         {"batch": 512, "length": 128, "cached": True}, seconds=3),
    Step("torchmetrics", "more_libraries", "evaluated", 2, {"batches": 4, "rows": 8192, "classes": 100}),
    *(
        Step(f"graphs-{kind}", "more_libraries", "pooled_graphs", 4, {"kind": kind, "graphs": 1000},
             seconds=3)
        for kind in ("pna", "transformer", "sage", "gin")
    ),
    *(
        Step(f"peft-{kind}", "more_libraries", "peft_variant", 4, {"kind": kind, "length": 512},
             classes=_LLAMA, seconds=3)
        for kind in ("dora", "prefix", "adalora", "ia3", "oft", "vera")
    ),
    Step("accelerate-loop", "more_libraries", "accelerated", 4, {"length": 512, "accumulate": 2},
         classes=_LLAMA, seconds=3),
    Step("accelerate-layers-on-host", "more_libraries", "layers_on_host", 3, {"length": 1024},
         classes=_LLAMA, seconds=4),
    Step("timm-recipe-adan", "more_libraries", "timm_recipe", 4,
         {"name": "vit_small_patch16_224", "optimizer": "adan", "batch": 64}, seconds=3),
    Step("trainer-smoothed-noisy", "libraries", "transformers_trainer", 6,
         {"bf16": True, "label_smoothing_factor": 0.1, "neftune_noise_alpha": 5.0,
          "torch_empty_cache_steps": 1, "optim": "adamw_torch_fused"}, classes=_LLAMA, seconds=4),
)  # fmt: skip

_DECODER = {"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12, "vocab_size": 32_000,
            "use_cache": False, "pad_token_id": 0}  # fmt: skip
_WORDS = {"input_ids": ([2, 512], 32_000), "labels": ([2, 512], 32_000)}
_FEWER = {"input_ids": ([8, 256], 20_000), "labels": ([8, 256], 20_000)}

#: of transformers: id, class, what its configuration is made of, inputs, autocast
_MODELS: tuple[tuple[str, str, dict[str, Any], dict[str, Any], str], ...] = (
    ("recurrent-gemma", "RecurrentGemmaForCausalLM",
     {**_DECODER, "intermediate_size": 2304, "num_hidden_layers": 3, "lru_width": 768}, _WORDS, ""),
    ("jamba", "JambaForCausalLM",
     {**_DECODER, "intermediate_size": 2048, "num_key_value_heads": 4, "num_experts": 4,
      "attn_layer_period": 4, "attn_layer_offset": 2, "use_mamba_kernels": False},
     {"input_ids": ([2, 200], 32_000), "labels": ([2, 200], 32_000)}, ""),
    ("falcon-h1", "FalconH1ForCausalLM",
     {**_DECODER, "intermediate_size": 2048, "num_key_value_heads": 4, "mamba_d_ssm": 1024,
      "mamba_n_heads": 32, "mamba_d_state": 64}, _WORDS, ""),
    ("rwkv", "RwkvForCausalLM",
     {"hidden_size": 512, "num_hidden_layers": 3, "vocab_size": 32_000, "use_cache": False,
      "attention_hidden_size": 512}, {"input_ids": ([2, 128], 32_000), "labels": ([2, 128], 32_000)}, "bf16"),
    ("switch-experts", "SwitchTransformersForConditionalGeneration",
     {"d_model": 512, "d_ff": 1024, "num_layers": 4, "num_decoder_layers": 4, "num_heads": 8,
      "num_experts": 8, "use_cache": False, "decoder_start_token_id": 0}, _FEWER, "bf16"),
    ("big-bird", "BigBirdForMaskedLM", {"num_hidden_layers": 3, "vocab_size": 20_000},
     {"input_ids": ([2, 1024], 20_000), "labels": ([2, 1024], 20_000)}, "bf16"),
    ("patch-tst", "PatchTSTForPrediction",
     {"num_input_channels": 7, "context_length": 512, "prediction_length": 96, "patch_length": 16,
      "patch_stride": 8, "d_model": 256, "num_hidden_layers": 4, "num_attention_heads": 8},
     {"past_values": ([64, 512, 7],), "future_values": ([64, 96, 7],)}, "bf16"),
    ("esm", "EsmForMaskedLM",
     {"vocab_size": 33, "hidden_size": 640, "num_hidden_layers": 6, "num_attention_heads": 20,
      "intermediate_size": 2560, "position_embedding_type": "rotary", "pad_token_id": 1,
      "mask_token_id": 32}, {"input_ids": ([8, 512], 31), "labels": ([8, 512], 31)}, "bf16"),
    ("vit-mae", "ViTMAEForPreTraining", {"num_hidden_layers": 6, "decoder_num_hidden_layers": 2},
     {"pixel_values": ([32, 3, 224, 224],)}, "bf16"),
)  # fmt: skip
MODELS = tuple(
    Step(f"transformers-{name}", "more_libraries", "inputs_model", 6,
         {"model": model, "options": options, "inputs": inputs, "autocast": autocast},
         classes=(model,), seconds=3)
    for name, model, options, inputs, autocast in _MODELS
)  # fmt: skip

HELD_OUT = (*RESEARCH, *MECHANISMS, *SEQUENCES, *MORE_LIBRARIES, *MODELS, *WRITTEN_OPTIMIZERS)
