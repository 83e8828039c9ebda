"""All steps, in the order in which they are captured; imports no torch."""

from __future__ import annotations

from typing import Any

from .architectures import ARCHITECTURES, timm_steps
from .held_out import HELD_OUT
from .step import Step

_LLAMA = ("LlamaConfig", "LlamaForCausalLM")
_EXPANDABLE = "expandable_segments:True"

LANGUAGE_MODELS = (
    Step("gpt2-fp32", "language_models", "gpt2", 17, {"batch": 8, "length": 1024},
         classes=("GPT2LMHeadModel",)),
    Step("gpt2-bf16", "language_models", "gpt2", 13, {"batch": 8, "length": 1024, "dtype": "bf16"},
         classes=("GPT2LMHeadModel",)),
    Step("gpt2-medium-fp16-amp", "language_models", "gpt2", 18,
         {"batch": 4, "length": 1000, "autocast": "fp16", "width": 1024, "layers": 24},
         classes=("GPT2LMHeadModel",)),
    Step("llama-160m-accumulated", "language_models", "llama", 7,
         {"size": "160m", "batch": 4, "length": 1024, "dtype": "fp32", "autocast": True, "accumulate": 4},
         classes=_LLAMA),
    Step("llama-1b", "language_models", "llama", 17, {"size": "1b", "batch": 2, "length": 1024},
         classes=_LLAMA),
    Step("llama-1b-fp32-amp-clip", "language_models", "llama", 29,
         {"size": "1b", "batch": 4, "length": 512, "dtype": "fp32", "autocast": True, "clip": True},
         classes=_LLAMA),
    Step("llama-1b-checkpointing", "language_models", "llama", 44,
         {"size": "1b", "batch": 8, "length": 2048, "checkpointing": True}, classes=_LLAMA),
    Step("llama-3b", "language_models", "llama", 36, {"size": "3b", "batch": 1, "length": 2048},
         classes=_LLAMA,
         seconds=4),
    Step("llama-8b", "language_models", "llama", 87, {"size": "8b", "batch": 1, "length": 2048},
         classes=_LLAMA,
         seconds=6),
    Step("llama-8b-fp32-fused-amp", "language_models", "llama", 135,
         {"size": "8b", "batch": 1, "length": 512, "dtype": "fp32", "fused": True, "autocast": True},
         alloc_conf=_EXPANDABLE, classes=_LLAMA, seconds=10),
    Step("qwen2-500m", "language_models", "qwen2", 12, {"batch": 2, "length": 1024},
         classes=("Qwen2ForCausalLM",)),
    Step("gemma-2b-256k-words", "language_models", "gemma", 16, {"batch": 1, "length": 1024},
         classes=("GemmaForCausalLM",), seconds=3),
    Step("opt-125m-padded", "language_models", "opt", 4, {"batch": 4, "length": 512},
         classes=("OPTForCausalLM",)),
    Step("pythia-410m-amp", "language_models", "neox", 10, {"batch": 4, "length": 512},
         classes=("GPTNeoXForCausalLM",)),
    Step("mistral-window", "language_models", "mistral", 6, {"batch": 1, "length": 4096},
         classes=("MistralForCausalLM",)),
    Step("plain-decoder", "language_models", "plain", 6, {"batch": 4, "length": 512}),
)  # fmt: skip

ENCODERS = (
    Step("bert-base", "encoders", "bert", 5, {"batch": 32, "length": 128},
         classes=("BertForSequenceClassification",)),
    Step("roberta-large-amp", "encoders", "roberta", 13, {"batch": 16, "length": 256},
         classes=("RobertaForMaskedLM",)),
    Step("t5-base-bf16", "encoders", "t5", 4, {"batch": 8, "length": 512, "dtype": "bf16"},
         classes=("T5ForConditionalGeneration",)),
    Step("t5-base-fp32-odd", "encoders", "t5", 6, {"batch": 5, "length": 333, "dtype": "fp32"},
         classes=("T5ForConditionalGeneration",)),
    Step("bart-large", "encoders", "bart", 5, {"batch": 8, "length": 256},
         classes=("BartForConditionalGeneration",)),
    Step("whisper-small-amp", "encoders", "whisper", 8, {"batch": 4},
         classes=("WhisperForConditionalGeneration",)),
    Step("nn-transformer", "encoders", "plain", 3, {"batch": 16, "length": 256}),
)  # fmt: skip

EXPERTS = (
    Step("experts-capacity", "experts", "capacity", 9, {"tokens_count": 8192}),
    Step("experts-soft", "experts", "soft", 0.8, {"tokens_count": 4000}),
    Step("mixtral", "experts", "mixtral", 6, {"batch": 2, "length": 512}, classes=("MixtralForCausalLM",)),
)

FINE_TUNING = (
    Step("lora-llama-8b", "fine_tuning", "lora", 32, {"size": "8b", "batch": 1, "length": 2048},
         classes=_LLAMA,
         seconds=4),
    Step("lora-llama-8b-checkpointing", "fine_tuning", "lora", 27,
         {"size": "8b", "batch": 2, "length": 2048, "checkpointing": True}, classes=_LLAMA, seconds=5),
    Step("lora-phi", "fine_tuning", "lit_gpt", 8,
         {"model": "phi", "batch": 2, "length": 1044, "four_bits": False}),
    Step("qlora-llama-7b", "fine_tuning", "lit_gpt", 18,
         {"model": "7b", "batch": 1, "length": 1304, "four_bits": True}, seconds=4),
    Step("distil-8b-to-3b", "fine_tuning", "distilled", 52,
         {"student": "3b", "teacher": "8b", "length": 1024},
         classes=_LLAMA, seconds=6),
    Step("distil-8b-to-3b-lora-chunks", "fine_tuning", "distilled", 29,
         {"student": "3b", "teacher": "8b", "length": 1024, "with_adapters": True, "chunks": 8},
         classes=_LLAMA, seconds=5),
)  # fmt: skip

OPTIMIZERS = (
    *(
        Step(f"optimizer-{name}", "optimizers", "updated", gib, {"optimizer": name}, classes=_LLAMA)
        for name, gib in {
            "adamw": 14, "adamw-loop": 12, "adamw-fused": 12, "adamw-amsgrad": 16, "adamw-capturable": 14,
            "sgd": 7, "sgd-momentum": 11, "rmsprop": 11, "adagrad": 13, "adafactor": 7, "ao-8-bit": 9,
            "ao-4-bit": 8, "ao-fp8": 9, "bnb-8-bit": 9,
        }.items()
    ),
    Step("optimizer-adamw-fp32-tiny", "optimizers", "updated", 4,
         {"optimizer": "adamw", "dtype": "fp32", "size": "160m", "length": 1000}, classes=_LLAMA),
    Step("step-in-backward-3b", "optimizers", "in_backward", 24, {"size": "3b"}, classes=_LLAMA, seconds=4),
)  # fmt: skip

ATTENTION = (
    Step("attention-flash", "attention", "attended", 0.4,
         {"batch": 4, "heads": 16, "length": 4096, "width": 64, "dtype": "bf16", "kernel": "flash"}),
    Step("attention-flash-64k", "attention", "attended", 1.7,
         {"batch": 1, "heads": 8, "length": 65_536, "width": 128, "dtype": "bf16", "kernel": "flash"},
         seconds=3),
    Step("attention-efficient-mask", "attention", "attended", 0.4,
         {"batch": 4, "heads": 16, "length": 2048, "width": 64, "dtype": "fp32", "kernel": "efficient",
          "mask": True}),
    Step("attention-math", "attention", "attended", 2,
         {"batch": 2, "heads": 16, "length": 2048, "width": 64, "dtype": "bf16", "kernel": "math"}),
    Step("attention-cudnn", "attention", "attended", 0.7,
         {"batch": 4, "heads": 16, "length": 4096, "width": 128, "dtype": "bf16", "kernel": "cudnn"}),
    Step("attention-picked-gqa", "attention", "attended", 0.5,
         {"batch": 2, "heads": 32, "length": 4096, "width": 128, "dtype": "bf16", "kv_heads": 8}),
    Step("attention-picked-odd", "attention", "attended", 0.1,
         {"batch": 3, "heads": 7, "length": 777, "width": 72, "dtype": "fp16", "dropout": 0.1}),
    Step("attention-picked-fp32", "attention", "attended", 0.1,
         {"batch": 2, "heads": 12, "length": 1500, "width": 80, "dtype": "fp32"}),
    Step("attention-weights", "attention", "multi_head", 1.6, {"batch": 8, "length": 1024}),
)  # fmt: skip

CONV_NETS = (
    Step("resnet50-fp32", "conv_nets", "classified", 7, {"kind": "resnet50", "batch": 64, "size": 224}),
    Step("resnet50-nhwc-amp", "conv_nets", "classified", 7,
         {"kind": "resnet50", "batch": 128, "size": 224, "layout": "nhwc", "autocast": "bf16"}),
    Step("resnet50-odd-fp16-amp", "conv_nets", "classified", 3,
         {"kind": "resnet50", "batch": 33, "size": 241, "autocast": "fp16"}),
    Step("resnet50-inference", "conv_nets", "classified_in_inference", 1, {"kind": "resnet50", "batch": 64}),
    Step("convnext-nhwc-amp", "conv_nets", "classified", 5,
         {"kind": "convnext", "batch": 64, "size": 224, "layout": "nhwc", "autocast": "bf16"}),
    Step("separable-odd", "conv_nets", "separable", 0.4, {"batch": 32, "size": 193}),
    Step("volumes", "conv_nets", "volumes", 1.8, {"batch": 2, "size": 96}),
    Step("unet-denoising", "conv_nets", "denoised", 2.1, {"batch": 2, "size": 64}),
    Step("unet-training-amp", "conv_nets", "diffused", 20, {"batch": 4, "size": 64}, seconds=4),
)  # fmt: skip

VISION_TRANSFORMERS = (
    Step("vit-l16", "vision_transformers", "large", 7, {"batch": 1}),
    Step("vit-b16-amp", "vision_transformers", "base", 7, {"batch": 64}),
    Step("vit-b16-amp-checkpointing", "vision_transformers", "base", 3, {"batch": 64, "checkpointing": True}),
    Step("vit-giant-8-bit", "vision_transformers", "giant", 12, {"batch": 8, "eight_bits": True}, seconds=3),
)

INFERENCE = (
    Step("decode-llama-8b", "inference", "decoded", 20,
         {"size": "8b", "batch": 8, "length": 1024, "new_tokens": 4}, classes=_LLAMA, seconds=4),
    Step("decode-llama-1b-odd", "inference", "decoded", 4,
         {"size": "1b", "batch": 3, "length": 777, "new_tokens": 12}, classes=_LLAMA),
    Step("score-llama-1b", "inference", "scored", 6, {"size": "1b", "batch": 2, "length": 4096},
         classes=_LLAMA),
    Step("static-cache", "inference", "static_cache", 3, {"length": 500, "new_tokens": 16}),
)  # fmt: skip

LOSSES = (
    Step("head-128k-words", "losses", "cross_entropy", 6, {"rows": 4096, "vocabulary": 128_256}),
    Step("head-divergence", "losses", "divergence", 7, {"rows": 2048, "vocabulary": 50_257}),
    Step("head-checkpointed-chunks", "losses", "checkpointed_chunks", 6,
         {"rows": 8192, "vocabulary": 151_936, "chunks": 16}),
    Step("torchtune-1b-chunks", "losses", "torchtune", 16,
         {"length": 4096, "chunks": 8, "checkpointing": True}, seconds=3),
)  # fmt: skip

LAYERS = (
    Step("one-mebibyte", "layers", "one_mebibyte", 0.1),
    Step("perceptron-odd", "layers", "perceptron", 0.1, {"widths": (77, 501, 1003, 33, 1), "rows": 1234}),
    Step("lstm", "layers", "recurrent", 1.6, {"batch": 64, "length": 100}),
    Step("checkpointed-sequence-fp16", "layers", "checkpointed_sequence", 3,
         {"layers": 16, "segments": 4, "rows": 8192}),
    Step("tables", "layers", "tables", 0.5, {"rows": 4096}),
    Step("side-stream", "layers", "on_side_streams", 0.7, {"rows": 4096}),
    Step("stream-behind", "layers", "on_a_stream_that_is_behind", 0.2),
    Step("cuda-graph", "layers", "in_a_graph", 1, {"rows": 4096}),
    Step("compiled", "layers", "compiled", 1, {"rows": 4096}, seconds=10),
)  # fmt: skip

ALLOCATOR_SETTINGS = tuple(
    Step(f"lengths-{name}", "layers", "varying_lengths", 10, arguments, conf)
    for name, conf, arguments in (
        ("default", "", {}),
        ("emptied", "", {"freed": True}),
        ("expandable", _EXPANDABLE, {}),
        ("expandable-emptied", _EXPANDABLE, {"freed": True}),
        ("max-split", "max_split_size_mb:64", {}),
        ("roundup", "roundup_power2_divisions:8", {}),
        ("roundup-table", "roundup_power2_divisions:[64:8,256:4,1024:2,>:1]", {}),
        ("collected", "garbage_collection_threshold:0.5,max_split_size_mb:128", {}),
    )
)

_TIMM: dict[str, dict[str, Any]] = {
    "swin_tiny_patch4_window7_224": {"batch": 32, "autocast": "bf16"},
    "efficientnet_b0": {"batch": 32},
    "mobilenetv3_large_100": {"batch": 64, "autocast": "fp16", "channels_last": True},
    "vit_small_patch14_dinov2": {"batch": 8, "size": 518, "autocast": "bf16"},
    "maxvit_tiny_rw_224": {"batch": 16, "autocast": "bf16"},
}
LIBRARIES = (
    *timm_steps(_TIMM),
    Step("torchvision-deeplab", "libraries", "torchvision_segmentation", 8, {"batch": 8, "size": 320},
         seconds=3),
    Step("torchvision-swin3d", "libraries", "torchvision_video", 12, {"batch": 4, "frames": 16},
         seconds=3),
    Step("torchvision-retinanet", "libraries", "torchvision_detection", 8, {"batch": 2, "size": 512},
         seconds=3),
    Step("torchaudio-conformer", "libraries", "torchaudio_conformer", 4, {"batch": 8, "length": 800},
         seconds=3),
    *(
        Step(f"transformers-{name}", "libraries", "transformers_model", 20,
             {"model": model, "config": config, "options": options, **sizes}, classes=(model,), seconds=3)
        for name, model, config, options, sizes in (
            ("qwen3-experts", "Qwen3MoeForCausalLM", "Qwen3MoeConfig",
             {"hidden_size": 1024, "intermediate_size": 2048, "moe_intermediate_size": 512,
              "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 4, "num_experts": 32,
              "num_experts_per_tok": 4, "use_cache": False},
             {"batch": 2, "length": 1024, "vocabulary": 150_000}),
            ("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig",
             {"hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 8,
              "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 262_144, "use_cache": False},
             {"batch": 2, "length": 1024, "vocabulary": 262_144}),
            ("mamba2", "Mamba2ForCausalLM", "Mamba2Config",
             {"hidden_size": 512, "num_hidden_layers": 4, "num_heads": 16, "head_dim": 64, "state_size": 64,
              "n_groups": 1, "use_cache": False}, {"batch": 2, "length": 512, "vocabulary": 32_000}),
            ("deberta", "DebertaV2ForMaskedLM", "DebertaV2Config",
             {"vocab_size": 30_000, "hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12,
              "intermediate_size": 3072, "relative_attention": True, "position_buckets": 256,
              "pos_att_type": ["c2p", "p2c"]},
             {"batch": 8, "length": 256, "vocabulary": 30_000, "autocast": "bf16"}),
            ("gpt-oss", "GptOssForCausalLM", "GptOssConfig",
             {"hidden_size": 1024, "intermediate_size": 1024, "num_hidden_layers": 4,
              "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64,
              "num_local_experts": 16, "use_cache": False},
             {"batch": 1, "length": 1024, "vocabulary": 200_000}),
        )
    ),
    Step("transformers-segformer", "libraries", "transformers_vision", 4,
         {"model": "SegformerForImageClassification", "config": "SegformerConfig", "options": {}, "batch": 16,
          "size": 256}, classes=("SegformerForImageClassification",)),
    Step("transformers-resnet", "libraries", "transformers_vision", 8,
         {"model": "ResNetForImageClassification", "config": "ResNetConfig", "options": {}, "batch": 32,
          "size": 224}, classes=("ResNetForImageClassification",)),
    Step("transformers-clip", "libraries", "clip", 8, {"batch": 32}, classes=("CLIPModel",)),
    Step("transformers-wav2vec", "libraries", "wav2vec", 8, {"batch": 4, "samples": 80_000},
         classes=("Wav2Vec2ForCTC",)),
    Step("generate-greedy", "libraries", "generated", 6,
         {"size": "1b", "batch": 4, "length": 700, "max_new_tokens": 8, "do_sample": False}, classes=_LLAMA),
    Step("generate-beams", "libraries", "generated", 6,
         {"size": "1b", "batch": 2, "length": 300, "max_new_tokens": 8, "num_beams": 4, "do_sample": False},
         classes=_LLAMA),
    Step("generate-sampled", "libraries", "generated", 6,
         {"size": "1b", "batch": 4, "length": 700, "max_new_tokens": 8, "do_sample": True, "top_p": 0.9},
         classes=_LLAMA),
    Step("peft-adapters", "libraries", "peft_adapters", 12, {"length": 1024, "quantity": 16}, classes=_LLAMA),
    Step("trainer-bf16", "libraries", "transformers_trainer", 6,
         {"bf16": True, "gradient_accumulation_steps": 2}, classes=_LLAMA, seconds=4),
    Step("trainer-fp32-checkpoints", "libraries", "transformers_trainer", 6,
         {"gradient_checkpointing": True, "optim": "adafactor"}, classes=_LLAMA, seconds=4),
    Step("lightning-mixed", "libraries", "lightning_trainer", 1, {"precision": "bf16-mixed"}, seconds=4),
    Step("graph-convolutions", "libraries", "graph_network", 2,
         {"kind": "GCNConv", "nodes": 50_000, "edges": 400_000}, seconds=4),
    Step("graph-attention", "libraries", "graph_network", 4,
         {"kind": "GATConv", "nodes": 50_000, "edges": 400_000}, seconds=4),
    Step("differential-equation", "libraries", "differential_equation", 1, {"rows": 20_000}, seconds=3),
)  # fmt: skip

FEATURES = (
    Step("ddp", "features", "distributed_data_parallel", 2, {"rows": 4096, "bucket_view": False}),
    Step("ddp-views", "features", "distributed_data_parallel", 2, {"rows": 4096, "bucket_view": True}),
    Step("fsdp2-llama-160m", "features", "fully_sharded", 6, {"size": "160m", "length": 1024},
         classes=_LLAMA),
    Step("saved-on-host", "features", "saved_on_host", 2, {"rows": 4096}),
    Step("selective-checkpoints", "features", "selectively_checkpointed", 2, {"rows": 4096}),
    Step("gradients-by-sample", "features", "gradients_by_sample", 2, {"rows": 512}),
    Step("jacobians", "features", "jacobians", 1, {"width": 300}),
    Step("ragged-attention", "features", "ragged", 1, {"count": 16}),
    Step("flex-attention", "features", "flexible_attention", 1, {"length": 2048}, seconds=12),
    Step("compiled-llama", "features", "compiled_llama", 6, {"length": 512, "mode": "default"},
         classes=_LLAMA, seconds=20),
    Step("compiled-llama-graphs", "features", "compiled_llama", 8,
         {"length": 512, "mode": "reduce-overhead"}, classes=_LLAMA, seconds=20),
    *(
        Step(f"updated-by-{name.lower()}", "features", "updated_by", 2, {"optimizer": name, **options})
        for name, options in {
            "Muon": {}, "LBFGS": {"history_size": 4, "max_iter": 3}, "NAdam": {}, "Adadelta": {}, "ASGD": {},
            "Rprop": {}, "Adamax": {}, "RAdam": {},
        }.items()
    ),
    Step("averaged", "features", "averaged", 2, {"rows": 2048}),
    Step("sparse-rows", "features", "sparse_rows", 2, {"words": 100_000}),
    Step("reparametrized", "features", "reparametrized", 1, {"rows": 2048}),
    Step("resampled", "features", "resampled", 2, {"batch": 8, "size": 256}),
    Step("eight-bit-products", "features", "eight_bits", 1, {"rows": 4096}),
    Step("gru-packed", "features", "recurrent_gates", 1, {"batch": 32, "length": 120}),
)  # fmt: skip

STEPS: tuple[Step, ...] = (
    *LAYERS, *ALLOCATOR_SETTINGS, *ATTENTION, *LOSSES, *OPTIMIZERS, *LANGUAGE_MODELS, *ENCODERS, *EXPERTS,
    *FINE_TUNING, *CONV_NETS, *VISION_TRANSFORMERS, *INFERENCE,
    *LIBRARIES, *FEATURES, *ARCHITECTURES, *HELD_OUT,
)  # fmt: skip
