"""Decoding with a cache of keys and values, that grows or that is made at once."""

from __future__ import annotations

import torch

from ..cases.models.gpt_fast import GptFast, GptFastShape, generate
from .language_models import LLAMAS, llama_model
from .training import on_cuda, tokens

_SHAPE = GptFastShape(
    layers=16, width=2048, heads=32, kv_heads=8, hidden=8192, vocabulary=32_000, positions=4096
)


def decoded(size: str, batch: int, length: int, new_tokens: int) -> None:
    """A Llama of transformers in bfloat16: the prompt, then token by token, its cache growing."""
    model = llama_model(size, torch.bfloat16, use_cache=True).eval()
    ids = tokens(batch, length, LLAMAS[size].get("vocab_size", 128_256))
    with torch.inference_mode():
        output = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        for _ in range(new_tokens - 1):
            ids = output.logits[:, -1:].argmax(-1)
            cache = output.past_key_values
            output = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)


def scored(size: str, batch: int, length: int) -> None:
    """A Llama's logits of every position, without gradients and without a cache."""
    model = llama_model(size, torch.bfloat16).eval()
    ids = tokens(batch, length, 32_000)
    with torch.no_grad():
        for _ in range(2):
            model(input_ids=ids)


def static_cache(length: int, new_tokens: int) -> None:
    """gpt-fast's loop with a cache made at once; sampled tokens."""
    with on_cuda(torch.bfloat16):
        model = GptFast(_SHAPE).eval()
    prompt = tokens(1, length, 32_000)[0]
    generate(model, prompt, new_tokens, new_tokens)
