"""From a job to the figures of its ranks: the one way through the formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from ..caveats import FORMULA, HOW, LEAST, Caveat, caveats_of
from ..components import COLLECTIVES, INPUTS, WORKSPACES
from ..errors import UsageMistake
from ..hardware.gpus import find_gpu
from . import states
from .data_parallel import communicating_blocks, groups_of
from .figures import RankFigure
from .implementations import blocks_of
from .implementations.heads import held_logits
from .implementations.unchecked import unchecked
from .job import Job
from .kernels.cublas import cublas_workspace_bytes
from .layout import inventory_for
from .local_tensors import LocalTensor
from .moments import Step, moments_of
from .number_types import bytes_for
from .pipeline import stages_of
from .refused import refused
from .sharding import ceil_div, local_tensors, shard_ranks
from .stage import Stage
from .terms import Term

#: The release whose workspaces are computed: sizes are the same from 2.12 to 2.14.
_TORCH = (2, 13)
_SAME_RULES = ("2.12.", "2.13.")
#: Where no card is named: the common data-centre card's.
_CAPABILITY = (9, 0)
_SHARDS_STATES = ("zero1", "zero2")


def estimate(job: Job) -> tuple[RankFigure, ...]:
    """The figures of ``job``, one for each set of identical ranks, in rank order.

    Raises ``UsageMistake`` for what cannot be laid out or computed.
    """
    _check(job)
    return tuple(_figure(stage) for stage in stages_of(job))


def worst_of(figures: Sequence[RankFigure]) -> RankFigure:
    """The figure of the ranks that take most."""
    return max(figures, key=lambda figure: figure.allocated_bytes)


def peak_bytes(job: Job) -> int:
    """What the worst rank of ``job`` has allocated at its peak."""
    return worst_of(estimate(job)).allocated_bytes


def _figure(stage: Stage) -> RankFigure:
    job = stage.job
    tensors = local_tensors(stage, inventory_for(job.model, job.adapter))
    module = import_module(f"{__package__}.implementations.{job.implementation}")
    own_step = getattr(module, "step_of", None)
    step: Step = own_step(stage, tensors) if own_step is not None else _step(stage, tensors)
    gpu = find_gpu(job.gpu) if job.gpu else None
    return RankFigure(
        rank=stage.rank,
        ranks=stage.ranks,
        moments=moments_of(step),
        host=_host(tensors, job),
        context_bytes=gpu.context_bytes if gpu else 0,
        replay=_replay(stage, step, tensors) if has_order(job) else None,
        caveats=_caveats(stage),
    )


def has_order(job: Job) -> bool:
    """Whether the order of ``job``'s tensors is known: training on the job's tapes, without offloading."""
    trains = job.task == "train" and job.implementation != "megatron" and job.teacher is None
    return trains and not job.offload and job.data_parallel.kind in ("fsdp2", "ddp")


def _replay(stage: Stage, step: Step, tensors: Sequence[LocalTensor]) -> Callable[[], int]:
    """What the allocator reserves; computed lazily, since it takes longer than all the rest."""

    @cache
    def reserved_bytes() -> int:
        from .replay.step import replayed_bytes  # most jobs do without

        groups, root = groups_of(stage, tensors, step.blocks)
        return replayed_bytes(stage.job, step, tensors, groups, root)

    return reserved_bytes


def _step(stage: Stage, tensors: Sequence[LocalTensor]) -> Step:
    job = stage.job
    if job.task == "generate":
        return Step(static=_static(stage, tensors), blocks=blocks_of(stage))
    blocks, gathered, at_end = communicating_blocks(stage, tensors)
    in_backward = job.optimizer.in_backward
    held = states.gradient_terms(tensors, job) if states.holds_gradients(job) else ()
    logits = held_logits(stage)
    return Step(
        static=(*_static(stage, tensors), *_teacher(stage)),
        blocks=blocks,
        gathered=gathered,
        at_end=at_end,
        gradients="freed" if in_backward else "added" if held else "kept",
        held_gradients=() if "gradients" in job.offload else held,
        in_flight=stage.in_flight,
        optimizer_temporaries=states.step_temporaries(_as_stepped(tensors, job), job),
        kept_to_step=logits,
        kept_from_before=logits,
    )


def _static(stage: Stage, tensors: Sequence[LocalTensor]) -> tuple[Term, ...]:
    job = stage.job
    return (
        *states.parameter_terms(tensors, job),
        *(states.state_terms(_as_stepped(tensors, job), job) if job.task == "train" else ()),
        *_inputs(stage),
        *_workspaces(job),
        *_buckets(tensors, job),
    )


def _as_stepped(tensors: Sequence[LocalTensor], job: Job) -> tuple[LocalTensor, ...]:
    """The tensors as the optimizer sees them: its part of each where it shards states (ZeRO 1 and 2)."""
    if job.data_parallel.kind not in _SHARDS_STATES:
        return tuple(tensors)
    return tuple(
        replace(
            tensor, shape=(ceil_div(tensor.elements, shard_ranks(job, is_expert=tensor.place == "expert")),)
        )
        for tensor in tensors
    )


def _inputs(stage: Stage) -> tuple[Term, ...]:
    """Token numbers; a training loop as torchtitan's has separate labels in addition."""
    job = stage.job
    if not job.model.vocab:
        return ()
    count = 2 if job.implementation == "torchtitan" and job.task == "train" else 1
    size_bytes = bytes_for(job.micro_batch * stage.sequence, "int64") * count
    return (Term(INPUTS, "token numbers", size_bytes, "b*s*8", count=count),)


def _workspaces(job: Job) -> tuple[Term, ...]:
    """One of the thread that runs forward, in training another of the one that runs backward."""
    capability = find_gpu(job.gpu).capability if job.gpu else _CAPABILITY
    count = 2 if job.task == "train" else 1
    size_bytes = cublas_workspace_bytes(capability, _TORCH, job.cublas_workspace_config) * count
    return (Term(WORKSPACES, "cuBLAS", size_bytes, "a thread", "CublasHandlePool.cpp", count),)


def _buckets(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """DDP's buckets hold all gradients once more, from the wrapping on, unless gradients are views of them.

    Source: torch/csrc/distributed/c10d/reducer.cpp, torch 2.13.
    """
    parallel = job.data_parallel
    ranks = job.degrees.data_parallel_replicate_degree * job.degrees.data_parallel_shard_degree
    if parallel.kind != "ddp" or ranks == 1 or job.task != "train":
        return ()
    size_bytes = sum(tensor.bytes * tensor.count for tensor in tensors if tensor.is_trained)
    held = 0 if parallel.gradient_as_bucket_view else size_bytes
    return (Term(COLLECTIVES, "DDP buckets", held, "all gradients", "reducer.cpp"),) if held else ()


def _teacher(stage: Stage) -> tuple[Term, ...]:
    """A teacher's parameters, sharded and split as the student's, without gradients and states."""
    job = stage.job
    if job.teacher is None or not stage.has_head:
        return ()
    kind = job.teacher_type or job.precision.compute_type
    alone = replace(
        job, model=job.teacher, adapter=None, teacher=None, precision=replace(job.precision, parameters=kind)
    )
    whole = Stage(alone, 0, 1, job.teacher.decoder.groups)
    tensors = local_tensors(whole, inventory_for(job.teacher, None))
    return states.parameter_terms([replace(tensor, is_trained=False) for tensor in tensors], alone)


def _host(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """What is offloaded; torch's step counters alone are no host memory worth a report."""
    if not job.offload:
        return ()
    found = list(states.host_terms(tensors, job))
    if "gradients" in job.offload:
        found += states.gradient_terms(tensors, job)
    found += states.host_step_temporaries(tensors, job)
    return tuple(term for term in found if term.bytes)


def _caveats(stage: Stage) -> tuple[Caveat, ...]:
    job = stage.job
    missing = [*(states.not_modelled(job) if job.task == "train" else ()), *unchecked(job)]
    found = [f"analytic: {job.implementation}'s layers with {job.attention} attention"]
    if stage.ranks > 1:
        last = stage.rank + stage.ranks - 1
        found.append(f"ranks {stage.rank} to {last} are identical, or hold less where a shard is uneven")
    if job.gpu is None:
        found.append("no card named: cuBLAS workspaces as on an H100")
    gathers = "ZeRO 3 gathers layer by layer as FSDP2 does; DeepSpeed's own prefetching takes more"
    least = [gathers] if job.data_parallel.kind == "zero3" else []
    installed = installed_torch()
    if installed and not installed.startswith(_SAME_RULES):
        found.append(
            f"rules of torch 2.13 (accuracy.md lists what differs), and torch {installed} is installed"
        )
    return (*caveats_of(HOW, found), *caveats_of(LEAST, least), *caveats_of(FORMULA, missing))


@cache
def installed_torch() -> str:
    """The version of the installed torch, without importing it; nothing where there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _check(job: Job) -> None:
    """Raise ``UsageMistake`` where parts of ``job`` do not go together, or no formula has one."""
    for name, what in refused(job):
        raise UsageMistake(f"{name}: {what}")
    if job.optimizer.in_backward and job.accumulation > 1:
        raise UsageMistake("an optimizer step in backward cannot accumulate gradients: write accumulation 1")
