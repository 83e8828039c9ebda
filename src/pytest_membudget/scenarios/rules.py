"""Rules between the fields of a scenario: combinations that no job can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import UsageMistake
from ..formulas.job import Job
from ..formulas.model import Experts, Layer, Model
from ..formulas.optimizers.registry import family_of, implementation_of
from ..formulas.refused import refused
from .reading import Written


def check_job(job: Job, written: Written) -> None:
    """Report combinations that cannot run, at the field that has to change."""
    for name, what in (
        *_of_the_layout(job),
        *_of_the_experts(job),
        *_of_the_step(job, written.values),
        *refused(job),
    ):
        written.refuse(name, what)


def _of_the_layout(job: Job) -> Iterator[tuple[str, str]]:
    degrees, layers = job.degrees, job.model.decoder.layer_count
    tensor, context = degrees.tensor_parallel_degree, degrees.context_parallel_degree
    for heads in sorted({layer.attention.heads for layer in _layers(job.model)}):
        if heads % tensor:
            yield "tensor_parallel_degree", f"{tensor} does not divide the {heads} heads"
    if job.sequence % context:
        yield "context_parallel_degree", f"{context} does not divide the sequence of {job.sequence}"
    stages = degrees.pipeline_parallel_degree * degrees.virtual_stages
    if stages > layers:
        yield "pipeline_parallel_degree", f"{stages} stages, and the model has {layers} layers"
    interleaves = degrees.pipeline_parallel_schedule == "Interleaved1F1B"
    if degrees.virtual_stages > 1 and not interleaves:
        yield "virtual_stages", "several are of pipeline_parallel_schedule: Interleaved1F1B; write that too"
    if interleaves and degrees.virtual_stages == 1:
        yield (
            "pipeline_parallel_schedule",
            "Interleaved1F1B has several model chunks; write virtual_stages: 2",
        )


def _of_the_experts(job: Job) -> Iterator[tuple[str, str]]:
    degrees, wanted = job.degrees, job.degrees.expert_parallel_degree
    if wanted == 1:
        return
    counts = {
        layer.feed_forward.count for layer in _layers(job.model) if isinstance(layer.feed_forward, Experts)
    }
    name = "expert_parallel_degree"
    if not counts:
        yield name, f"{wanted}, and the model has no experts"
    for count in sorted(counts):
        if count % wanted:
            yield name, f"{wanted} does not divide the {count} experts"
    inner = degrees.expert_tensor_parallel_degree or degrees.tensor_parallel_degree
    ranks = degrees.gpus // degrees.pipeline_parallel_degree
    if ranks % (wanted * inner):
        yield name, f"{wanted} x {inner} (tensor parallel) does not divide the {ranks} ranks of a stage"


def _of_the_step(job: Job, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        implementation_of(job.optimizer, family_of(job.optimizer))
    except UsageMistake as error:
        yield "optimizer", str(error)
    loss = values.get("loss", {})
    if "chunks" in loss and job.loss.kind != "chunked":
        yield "loss", f"chunks is of kind: chunked, and this one is {job.loss.kind}"
    if "every" in values.get("checkpointing", {}) and job.checkpointing.mode == "none":
        yield "checkpointing", "every is of a mode that recomputes; write mode: selective"
    if job.teacher is not None and job.generation is not None:
        yield "teacher", "nothing is distilled in generation; leave teacher or generate out"
    if job.teacher is not None and job.teacher.vocab != job.model.vocab:
        vocabularies = f"its vocabulary is {job.teacher.vocab}, the model's {job.model.vocab}"
        yield "teacher", f"{vocabularies}: their logits cannot be compared"
    if job.generation is not None and job.adapter is not None and job.adapter.dropout:
        yield "method", "there is no dropout in generation; leave it out"


def _layers(model: Model) -> Iterator[Layer]:
    for stack in (model.decoder, model.encoder):
        if stack is not None:
            yield from (layer for layer, _ in stack.groups)
