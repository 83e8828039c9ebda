"""A rank of a pipeline: its stages of the plain Llama, and torch's schedules of micro-batches."""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)

from ..formulas.decoder import Shape
from ..scenarios.job import Job
from .known import shape_of
from .layout import built, laid_out, shared_out
from .llama import Llama, next_token_loss
from .optimizers import optimizer_class
from .program import STEPS, TYPES, Decoder


def train_stages(job: Job, mesh: DeviceMesh) -> None:
    """Take ``STEPS`` steps of this rank's stages."""
    shape, degrees = shape_of(job.model), job.degrees
    rank, ranks = mesh["pipeline"].get_local_rank(), degrees.pipeline_parallel_degree
    count = ranks * degrees.virtual_stages
    models = {number: _stage(job, shape, mesh, number, count) for number in range(rank, count, ranks)}
    trained = [parameter for model in models.values() for parameter in model.parameters()]
    optimizer = optimizer_class(job.optimizer)(trained)
    schedule = _schedule(
        job, [_staged(job, shape, mesh, model, number, count) for number, model in models.items()]
    )
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
    layers = layers_of(number, count, shape.layers)

    def build() -> Decoder:
        llama = Llama(shape, is_eager=job.attention == "eager", stage=layers)
        return llama.to(TYPES[job.precision.parameters]).decoder()

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


def _schedule(job: Job, stages: list[Any]) -> Any:
    options: dict[str, Any] = {"n_microbatches": job.accumulation, "loss_fn": next_token_loss}
    if job.degrees.pipeline_parallel_schedule == "Interleaved1F1B":
        return ScheduleInterleaved1F1B(stages, **options)
    kind = ScheduleGPipe if job.degrees.pipeline_parallel_schedule == "GPipe" else Schedule1F1B
    return kind(stages[0], **options)
