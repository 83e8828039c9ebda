"""A Llama in plain torch, for whoever has no library: training, pipelines, distillation, generation."""

import functools
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

from ..formulas.decoder import Shape
from ..scenarios.job import Generation, Job, Model
from .known import shape_of
from .layout import built, laid_out, shared_out
from .llama import Cache, Llama, next_token_loss
from .optimizers import optimizer_class
from .program import STATIC_TOKENS, STEPS, TYPES, Decoder, begin
from .running import run, run_program


def train_stages(job: Job, mesh: DeviceMesh) -> None:
    """Take ``STEPS`` steps of this rank's stages."""
    shape, degrees = shape_of(job.model), job.degrees
    rank, ranks = mesh["pipeline"].get_local_rank(), degrees.pipeline_parallel_degree
    count = ranks * degrees.virtual_stages
    models = {number: _stage(job, shape, mesh, number, count) for number in range(rank, count, ranks)}
    trained = [parameter for model in models.values() for parameter in model.parameters()]
    optimizer = optimizer_class(job.optimizer)(trained)
    stages: Any = [_staged(job, shape, mesh, model, number, count) for number, model in models.items()]
    kind: Any = get_schedule_class(degrees.pipeline_parallel_schedule)
    own = stages if issubclass(kind, PipelineScheduleMulti) else stages[0]
    schedule = kind(own, n_microbatches=job.accumulation, loss_fn=next_token_loss)
    tokens = torch.zeros(job.micro_batch * job.accumulation, job.sequence, dtype=torch.int64, device="cuda")
    for _ in range(STEPS):
        inputs = (tokens,) if 0 in models else ()
        schedule.step(*inputs, target=tokens if count - 1 in models else None)
        if job.optimizer.clips_gradients:
            nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()


def layers_of(number: int, count: int, layers: int) -> range:
    """The layers of a stage: as even as can be, the first stages one more."""
    less, more = divmod(layers, count)
    begin = number * less + min(number, more)
    return range(begin, begin + less + (number < more))


def _stage(job: Job, shape: Shape, mesh: DeviceMesh, number: int, count: int) -> nn.Module:
    stage = layers_of(number, count, shape.layers)
    build = functools.partial(decoder_of, job, job.model, TYPES[job.precision.parameters], stage)
    decoder = built(build, job, mesh)
    laid_out(decoder, job, mesh)
    return shared_out(decoder.model, decoder, job, mesh).train()


def _staged(
    job: Job, shape: Shape, mesh: DeviceMesh, model: nn.Module, number: int, count: int
) -> PipelineStage:
    """``model`` with the shapes of what it is given and hands on, which no other rank has to send then."""
    width, between = (job.micro_batch, job.sequence), TYPES[job.precision.compute_type]
    handed = torch.empty(*width, shape.hidden, dtype=between, device="meta", requires_grad=True)
    tokens = torch.empty(*width, dtype=torch.int64, device="meta")
    logits = torch.empty(*width, shape.vocab, dtype=between, device="meta")
    return PipelineStage(
        model,
        number,
        count,
        torch.device("cuda", torch.cuda.current_device()),
        input_args=tokens if number == 0 else handed,
        output_args=logits if number == count - 1 else handed,
        group=mesh.get_group("pipeline"),
    )


def decoder_of(job: Job, model: Model, number_type: torch.dtype, stage: range | None = None) -> Decoder:
    """The decoder of ``model``, or a ``stage`` of it, where ``torch.device`` says."""
    llama = Llama(shape_of(model), is_eager=job.attention == "eager", stage=stage)
    return llama.to(number_type).decoder()


@torch.inference_mode()
def generate(job: Job, generation: Generation) -> None:
    """A prompt, then tokens one by one, with logits of the last token alone."""
    with torch.device("cuda"):
        llama: Any = decoder_of(job, job.model, TYPES[job.precision.parameters]).model.eval()
        tokens = torch.zeros(job.micro_batch, generation.prompt, dtype=torch.int64)
    whole = generation.prompt + generation.new_tokens if generation.cache == "static" else None
    for layer in llama.layers:
        layer.attention.cache = Cache(whole)
    begin = 0
    for _ in range(generation.new_tokens if whole is None else min(generation.new_tokens, STATIC_TOKENS)):
        hidden = llama.hidden(tokens, begin)
        begin += tokens.shape[1]
        tokens = llama.head(hidden[:, -1:]).argmax(-1)


def _steps(job: Job) -> None:
    if job.degrees.pipeline_parallel_degree > 1 and (mesh := begin(job.degrees)) is not None:
        train_stages(job, mesh)
    else:
        run(job, decoder_of, generate)


if __name__ == "__main__":
    run_program(_steps)
