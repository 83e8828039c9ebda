"""A model of transformers from its ``config.json``: full or adapted training, distillation, generation."""

import functools
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, StaticCache

from ..assumptions import assume
from ..scenarios.job import Generation, Job, Model
from .program import STATIC_TOKENS, TYPES, Decoder
from .running import run, run_program
from .tensor_plans import hugging_face_plan


def decoder_of(job: Job, model: Model, number_type: torch.dtype) -> Decoder:
    """The causal language model of ``model``, where ``torch.device`` says."""
    config = AutoConfig.for_model(**{**model.values, "use_cache": False})
    attention = "eager" if job.attention == "eager" else "sdpa"
    causal = AutoModelForCausalLM.from_config(config, dtype=number_type, attn_implementation=attention)
    # within tensor parallelism the first layer has a part of the sequence, whose places these are
    places: dict[str, Tensor] = {}
    if job.degrees.sequence_parallel:
        with torch.device("cuda"):
            places = {"position_ids": torch.arange(job.sequence)[None]}
    body = causal.base_model
    return Decoder(
        causal,
        body.layers,
        hidden=lambda tokens: body(input_ids=tokens, **places).last_hidden_state,
        logits=lambda tokens: causal(input_ids=tokens, **places).logits,
        loss=lambda tokens: causal(input_ids=tokens, labels=tokens, **places).loss,
        head=causal.get_output_embeddings(),
        recompute_layers=functools.partial(_recompute_layers, causal),
        tensor_plan=functools.partial(hugging_face_plan, causal),
    )


def _recompute_layers(causal: PreTrainedModel) -> None:
    if hasattr(causal, "activation_checkpointing_enable"):  # 5.23's name
        causal.activation_checkpointing_enable({"use_reentrant": False})
    else:
        causal.gradient_checkpointing_enable({"use_reentrant": False})


def generate(job: Job, generation: Generation) -> None:
    """A prompt, then tokens one by one, by transformers' ``generate``.

    A static cache is whole from the start: each token after the first takes the same, so a few are run. By
    default ``generate`` compiles what has one; here ``compiled`` says whether.
    """
    with torch.device("cuda"):
        causal: Any = decoder_of(job, job.model, TYPES[job.precision.parameters]).model.eval()
    causal.config.use_cache = causal.generation_config.use_cache = True
    tokens = torch.zeros(job.micro_batch, generation.prompt, dtype=torch.int64, device="cuda")
    new, cache = generation.new_tokens, None
    if generation.cache == "static":
        cache = StaticCache(causal.config, max_cache_len=generation.prompt + new)
        new = min(new, STATIC_TOKENS)
    with assume(value=False):  # no sequence has come to its end before that
        causal.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            past_key_values=cache,
            disable_compile=not job.compiled,
            max_new_tokens=new,
            min_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
        )


if __name__ == "__main__":
    run_program(lambda job: run(job, decoder_of, generate))
