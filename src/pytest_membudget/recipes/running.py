"""A job from a model to its steps, whichever library's code makes the model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..scenarios.job import Generation, Job, Model
from .layout import built, laid_out, shared_out
from .objectives import Distillation, NextToken
from .parts import Decoder
from .program import TYPES, begin, job_of_program
from .training import train

#: Makes a decoder of a model, its parameters of a type, where ``torch.device`` says.
MakeDecoder = Callable[[Job, Model, torch.dtype], Decoder]

#: torch's attention kernels that a job may name; it chooses one of them else.
_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def run_program(steps: Callable[[Job], None]) -> None:
    """Take the ``steps`` of the command line's job, with the attention that it names."""
    job = job_of_program()
    named = _BACKENDS.get(job.attention)
    with sdpa_kernel(named) if named is not None else contextlib.nullcontext():
        steps(job)


def run(job: Job, decoder_of: MakeDecoder, generate: Callable[[Job, Generation], None]) -> None:
    """The steps of ``job``, or its generation."""
    if job.generation is not None:
        generate(job, job.generation)
        return
    mesh = begin(job.degrees)
    student = _student(job, decoder_of, mesh)
    laid_out(student, job, mesh)
    objective: NextToken | Distillation = NextToken(student, job.loss)
    if job.teacher is not None:
        objective = Distillation(student, _teacher(job, job.teacher, decoder_of, mesh), job.loss)
    train(shared_out(objective, student, job, mesh), job, mesh)


def _student(job: Job, decoder_of: MakeDecoder, mesh: Any) -> Decoder:
    build = functools.partial(decoder_of, job, job.model, TYPES[job.precision.parameters])
    if job.adapter is None:
        return built(build, job, mesh)
    from .adapters import adapted, quantised

    is_quantised = job.adapter.base is not None
    return adapted(quantised(build, job.adapter) if is_quantised else built(build, job, mesh), job.adapter)


def _teacher(job: Job, model: Model, decoder_of: MakeDecoder, mesh: Any) -> Decoder:
    number_type = TYPES[job.teacher_type or job.precision.compute_type]
    teacher = built(functools.partial(decoder_of, job, model, number_type), job, mesh)
    teacher.model.eval().requires_grad_(False)
    shared_out(teacher.model, teacher, job, mesh)
    return teacher
