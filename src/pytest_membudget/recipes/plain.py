"""A Llama in plain torch, for whoever has no library: training, distillation, generation."""

from __future__ import annotations

from typing import Any

import torch

from ..scenarios.job import Generation, Job, Model
from .attention import attention_backend
from .llama import Cache, Llama
from .parts import Decoder
from .program import STATIC_TOKENS, TYPES, job_of_program
from .running import run
from .shape import shape_of
from .tensor_plans import llama_plan


def decoder_of(job: Job, model: Model, number_type: torch.dtype) -> Decoder:
    """The decoder of ``model``, where ``torch.device`` says."""
    llama = Llama(shape_of(model), is_eager=job.attention == "eager").to(number_type)
    assert llama.head is not None
    return Decoder(
        llama,
        llama.layers,
        hidden=llama.hidden,
        logits=llama,
        loss=llama.loss,
        head=llama.head,
        recompute_layers=llama.recompute_layers,
        tensor_plan=llama_plan,
    )


@torch.inference_mode()
def generate(job: Job, generation: Generation) -> None:
    """A prompt, then tokens one by one, with logits of the last token alone."""
    with torch.device("cuda"):
        llama = Llama(shape_of(job.model), is_eager=job.attention == "eager")
        llama = llama.to(TYPES[job.precision.parameters]).eval()
        tokens = torch.zeros(job.micro_batch, generation.prompt, dtype=torch.int64)
    whole = generation.prompt + generation.new_tokens if generation.cache == "static" else None
    layers: Any = llama.layers
    for layer in layers:
        layer.attention.cache = Cache(whole)
    head, begin = llama.head, 0
    assert head is not None
    for _ in range(generation.new_tokens if whole is None else min(generation.new_tokens, STATIC_TOKENS)):
        hidden = llama.hidden(tokens, begin)
        begin += tokens.shape[1]
        tokens = head(hidden[:, -1:]).argmax(-1)


if __name__ == "__main__":
    job = job_of_program()
    with attention_backend(job.attention):
        run(job, decoder_of, generate)
