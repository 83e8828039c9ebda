"""A job from a model to two steps of training, whichever library's code makes the model."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..scenarios.job import Generation, Job, Loss, Model
from ..steps import forward_kl, linear_cross_entropy, optimizer_in_backward
from .layout import built, laid_out, shared_out
from .optimizers import optimizer_class
from .program import MICRO_BATCHES, STEPS, TYPES, Decoder, begin, job_of_program, tokens_of

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
    _train(shared_out(objective, student, job, mesh), job, mesh)


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


class NextToken(nn.Module):
    """Cross entropy with the next token."""

    def __init__(self, decoder: Decoder, loss: Loss) -> None:
        super().__init__()
        self.model = decoder.model
        self._decoder, self._loss = decoder, loss

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss of ``tokens``, (batch, sequence)."""
        if self._loss.kind == "full":
            return self._decoder.loss(tokens)
        hidden, head = self._decoder.hidden(tokens), self._decoder.head
        return linear_cross_entropy(
            hidden, head.weight, tokens, linear_bias=head.bias, chunks=self._loss.chunks
        )


class Distillation(nn.Module):
    """Divergence from a frozen teacher's distribution, which needs the logits of both."""

    def __init__(self, student: Decoder, teacher: Decoder, loss: Loss) -> None:
        super().__init__()
        self.model = student.model
        self._student, self._chunks = student, loss.chunks if loss.kind == "chunked" else 1
        self._teacher = teacher  # no submodule: it is sharded by itself, and is not trained

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss of ``tokens``, (batch, sequence)."""
        with torch.no_grad():
            targets = self._teacher.logits(tokens)
        logits = self._student.logits(tokens)
        # a larger model of a family may pad its vocabulary further: what both have is compared
        return forward_kl(logits, targets[..., : logits.shape[-1]], chunks=self._chunks)


def _train(objective: nn.Module, job: Job, mesh: DeviceMesh | None) -> None:
    """Take ``STEPS`` steps of ``objective``, which returns the loss of a micro-batch of tokens."""
    objective.train()
    trained = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    make: Any = optimizer_class(job.optimizer)
    optimizer: torch.optim.Optimizer | None = None
    if job.optimizer.in_backward:
        optimizer_in_backward(trained, make)
    elif job.data_parallel.kind == "zero1" and mesh is not None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(trained, make, process_group=mesh.get_group("replicate"))
    else:
        optimizer = make(trained)
    for _ in range(STEPS):
        for _ in range(min(job.accumulation, MICRO_BATCHES)):
            with _forward(job):
                loss = objective(tokens_of(job))
            loss.backward()
            del loss
        if optimizer is not None:
            if job.optimizer.clips_gradients:
                nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()


@contextlib.contextmanager
def _forward(job: Job) -> Iterator[None]:
    with contextlib.ExitStack() as during:
        if job.precision.policy == "autocast":
            during.enter_context(torch.autocast("cuda", TYPES[job.precision.compute_type]))
        if "activations" in job.offload:
            during.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=True))
        yield
