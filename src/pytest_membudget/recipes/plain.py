"""A Llama in plain torch, for whoever has no library: training, distillation, generation."""

from typing import Any

import torch

from ..scenarios.job import Generation, Job, Model
from .known import shape_of
from .llama import Cache, Llama
from .pipeline import train_stages
from .program import STATIC_TOKENS, TYPES, Decoder, begin
from .running import run, run_program


def decoder_of(job: Job, model: Model, number_type: torch.dtype) -> Decoder:
    """The decoder of ``model``, where ``torch.device`` says."""
    return Llama(shape_of(model), is_eager=job.attention == "eager").to(number_type).decoder()


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


def _steps(job: Job) -> None:
    if job.degrees.pipeline_parallel_degree > 1 and (mesh := begin(job.degrees)) is not None:
        train_stages(job, mesh)
    else:
        run(job, decoder_of, generate)


if __name__ == "__main__":
    run_program(_steps)
