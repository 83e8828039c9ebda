"""Decoders of transformers, trained from their configurations: families, sizes, types, vocabularies."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .training import TYPES, language_loss, on_cuda, tokens, trained

#: The keywords that every Llama below shares.
_LLAMA = {"vocab_size": 128_256, "rope_theta": 500_000.0, "use_cache": False}
#: Llama 3 shapes by parameters.
LLAMAS: dict[str, dict[str, Any]] = {
    "160m": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
             "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32_000},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
           "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True},
    "3b": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
           "num_attention_heads": 24, "num_key_value_heads": 8, "tie_word_embeddings": True},
    "8b": {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8},
}  # fmt: skip


def llama_model(size: str, dtype: torch.dtype, **options: Any) -> nn.Module:
    """A Llama on the device."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with on_cuda(dtype):
        model: nn.Module = LlamaForCausalLM(LlamaConfig(**(_LLAMA | LLAMAS[size] | options)))
    return model


def llama(
    size: str,
    batch: int,
    length: int,
    dtype: str = "bf16",
    fused: bool = False,
    autocast: bool = False,
    checkpointing: bool = False,
    accumulate: int = 1,
    clip: bool = False,
) -> None:
    """A Llama 3 of transformers with AdamW."""
    model = llama_model(size, TYPES[dtype])
    if checkpointing:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
    ids = tokens(batch, length, LLAMAS[size].get("vocab_size", _LLAMA["vocab_size"]))
    trained(
        model,
        language_loss(model, {"input_ids": ids, "labels": ids}),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-4, fused=fused or None),
        autocast=torch.bfloat16 if autocast else None,
        accumulate=accumulate,
        clip=clip,
    )


def gpt2(
    batch: int, length: int, dtype: str = "fp32", autocast: str = "", width: int = 768, layers: int = 12
) -> None:
    """GPT-2 with its dropout, learned positions and tied head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with on_cuda(TYPES[dtype]):
        config = GPT2Config(n_embd=width, n_layer=layers, n_head=width // 64, use_cache=False)
        model = GPT2LMHeadModel(config)
    ids = tokens(batch, length, 50_257)
    loss = language_loss(model, {"input_ids": ids, "labels": ids})
    trained(model, loss, autocast=TYPES[autocast] if autocast else None)


def qwen2(batch: int, length: int) -> None:
    """Qwen2 0.5B: biases on queries, keys and values, 151,936 words."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with on_cuda(torch.bfloat16):
        model = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=151_936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
            num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True, use_cache=False,
        ))  # fmt: skip
    ids = tokens(batch, length, 151_936)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}), clip=True)


def gemma(batch: int, length: int) -> None:
    """Gemma 2B: one key-value head of 256, 256,000 words; SGD."""
    from transformers import GemmaConfig, GemmaForCausalLM

    with on_cuda(torch.bfloat16):
        model = GemmaForCausalLM(GemmaConfig(
            vocab_size=256_000, hidden_size=2048, intermediate_size=16_384, num_hidden_layers=18,
            num_attention_heads=8, num_key_value_heads=1, head_dim=256, use_cache=False,
        ))  # fmt: skip
    ids = tokens(batch, length, 256_000)
    loss = language_loss(model, {"input_ids": ids, "labels": ids})
    trained(model, loss, lambda parameters: torch.optim.SGD(parameters, lr=1e-3))


def opt(batch: int, length: int) -> None:
    """OPT 125M: biases, learned positions, an attention mask with padding; float16 with a scaler."""
    from transformers import OPTConfig, OPTForCausalLM

    with on_cuda():
        model = OPTForCausalLM(OPTConfig(use_cache=False))
    ids = tokens(batch, length, 50_272)
    mask = torch.ones_like(ids)
    mask[:, : length // 4] = 0
    loss = language_loss(model, {"input_ids": ids, "labels": ids, "attention_mask": mask})
    trained(model, loss, autocast=torch.float16, clip=True)


def neox(batch: int, length: int) -> None:
    """Pythia 410M: rotary on a quarter of each head, attention and MLP in parallel; bfloat16 autocast."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    with on_cuda():
        model = GPTNeoXForCausalLM(GPTNeoXConfig(
            vocab_size=50_304, hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
            num_attention_heads=16, use_cache=False,
        ))  # fmt: skip
    ids = tokens(batch, length, 50_304)
    loss = language_loss(model, {"input_ids": ids, "labels": ids})
    trained(model, loss, autocast=torch.bfloat16)


def mistral(batch: int, length: int) -> None:
    """A small Mistral whose attention sees a window of 1,024 tokens."""
    from transformers import MistralConfig, MistralForCausalLM

    with on_cuda(torch.bfloat16):
        model = MistralForCausalLM(MistralConfig(
            vocab_size=32_000, hidden_size=1024, intermediate_size=3584, num_hidden_layers=8,
            num_attention_heads=16, num_key_value_heads=4, sliding_window=1024, use_cache=False,
        ))  # fmt: skip
    ids = tokens(batch, length, 32_000)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}))


def plain(batch: int, length: int) -> None:
    """A decoder of single operators that keeps its attention scores, with cross entropy and AdamW by hand."""
    from ..cases.models.dense_transformer import DenseTransformer
    from ..cases.models.plain_training import PlainAdamW, cross_entropy

    with on_cuda():
        model = DenseTransformer(vocab=10_000, context=length, width=768, layers=12, heads=12, hidden=3072)
    ids = tokens(batch, length, 10_000)
    trained(model, lambda: cross_entropy(model(ids), ids), PlainAdamW)
