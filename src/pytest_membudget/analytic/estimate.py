"""From a job to the figures of its ranks: the one way through the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from ..components import COLLECTIVES, GRADIENTS, INPUTS, WORKSPACES
from ..cublas import cublas_workspace_bytes
from ..errors import UsageMistake
from ..gpus import find_gpu
from . import states
from .communication import Group, sharded
from .figures import RankFigure
from .implementations import blocks_of
from .implementations.heads import held_logits
from .implementations.unchecked import unchecked
from .job import Job
from .layout import group_of, inventory_for, layer_group, layer_tensors, root_tensors
from .local_tensors import LocalTensor
from .moments import Block, Step, moments_of
from .number_types import bytes_for
from .pipeline import stages_of
from .sharding import ceil_div, local_tensors, shard_ranks
from .stage import Stage
from .terms import Term

#: The release whose workspaces are reckoned: sizes are the same from 2.12 to 2.14.
_TORCH = (2, 13)
#: Where no card is named: the common data-centre card's.
_CAPABILITY = (9, 0)
_SHARDS_GRADIENTS = ("fsdp2", "zero2", "zero3")
_SHARDS_STATES = ("zero1", "zero2")
_ZERO = "arXiv:1910.02054, section 5.2"


def estimate(job: Job) -> tuple[RankFigure, ...]:
    """The figures of ``job``, one for each set of ranks that are alike, in rank order.

    Raises ``UsageMistake`` for what cannot be laid out or reckoned.
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
        assumptions=_assumptions(stage),
        not_modelled=(*(states.not_modelled(job) if job.task == "train" else ()), *unchecked(job)),
    )


def _step(stage: Stage, tensors: Sequence[LocalTensor]) -> Step:
    job = stage.job
    if job.task == "generate":
        return Step(static=_static(stage, tensors), blocks=blocks_of(stage))
    blocks, gathered, at_end = _communicating(stage, tensors)
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
        replace(tensor, shape=(ceil_div(tensor.elements, _ranks(tensor, job)),)) for tensor in tensors
    )


def _ranks(tensor: LocalTensor, job: Job) -> int:
    return shard_ranks(job, is_expert=tensor.place == "expert")


def _inputs(stage: Stage) -> tuple[Term, ...]:
    """Token numbers; a training loop in torchtitan's way has labels of their own beside them."""
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
    size_bytes = cublas_workspace_bytes(capability, _TORCH) * count
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


def _communicating(
    stage: Stage, tensors: Sequence[LocalTensor]
) -> tuple[tuple[Block, ...], tuple[Term, ...], tuple[Term, ...]]:
    """The blocks with what data parallelism adds; what is gathered all along, and what its end takes."""
    job = stage.job
    blocks = blocks_of(stage)
    if job.data_parallel.kind == "zero2":
        return tuple(_partitioned(block, stage, tensors) for block in blocks), (), ()
    if job.data_parallel.kind not in _SHARDS_GRADIENTS or shard_ranks(job) == 1 or job.task != "train":
        return blocks, (), ()
    root = group_of(root_tensors(tensors), job, reshards=False)
    if job.data_parallel.wraps_ends:
        return sharded(blocks, [_own_group(block, stage, tensors) for block in blocks]), (), ()
    made = sharded(
        blocks,
        [_layers_group(block, stage) for block in blocks],
        gathered_before=root,
        keeps_last=job.data_parallel.keeps_last_layer,
    )
    ends = tuple(_at_root(block, root) if _number_of(block) is None else block for block in made)
    # the root's flat buffer is held until the first layer has been copied out
    beside = (*ends[0].beside_forward, root.flat())
    ends = (replace(ends[0], before_forward=root.gathering(), beside_forward=beside), *ends[1:])
    return ends, (root.parameters(),), (*root.reduced(), *root.outputs())


def _partitioned(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> Block:
    """ZeRO 2 leaves this rank's part of each gradient."""
    own = _tensors_of(block, stage, tensors)
    size_bytes = sum(
        bytes_for(
            ceil_div(tensor.elements, _ranks(tensor, stage.job)), states.gradient_type(tensor, stage.job)
        )
        * tensor.count
        for tensor in own
        if tensor.is_trained
    )
    parts = (Term(GRADIENTS, "gradients", size_bytes, "elements/ranks*type", _ZERO),) if size_bytes else ()
    return replace(block, shards=parts) if own else block


def _tensors_of(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> list[LocalTensor]:
    """The parameters of one of ``block``'s layers, or of the end of the model that it is."""
    number = _number_of(block)
    if number is not None:
        return layer_tensors(stage, stage.groups[number][0])
    return [tensor for tensor in tensors if tensor.layer == block.name]


def _at_root(block: Block, root: Group) -> Block:
    """Embedding and head leave whole gradients until the end; the root's shards go by the head."""
    return replace(block, shards=root.shards() if block.name == "head" else (), shards_at_end=True)


def _layers_group(block: Block, stage: Stage) -> Group | None:
    number = _number_of(block)
    return None if number is None else layer_group(stage, stage.groups[number][0])


def _number_of(block: Block) -> int | None:
    """Which of the stage's groups of layers ``block`` is; None for another part of the model."""
    if not block.name.startswith("layers"):
        return None
    return int(block.name.removeprefix("layers") or 0)


def _own_group(block: Block, stage: Stage, tensors: Sequence[LocalTensor]) -> Group | None:
    group = _layers_group(block, stage)
    if group is not None:
        return group
    own = [tensor for tensor in tensors if tensor.layer == block.name]
    # torchtitan does not reshard the last group: backward wants it at once
    return group_of(own, stage.job, reshards=None if block.name == "embedding" else False) if own else None


def _host(tensors: Sequence[LocalTensor], job: Job) -> tuple[Term, ...]:
    """What is offloaded; torch's step counters alone are no host memory worth a report."""
    if not job.offload:
        return ()
    found = list(states.host_terms(tensors, job))
    if "gradients" in job.offload:
        found += states.gradient_terms(tensors, job)
    found += states.host_step_temporaries(tensors, job)
    return tuple(term for term in found if term.bytes)


def _assumptions(stage: Stage) -> tuple[str, ...]:
    job = stage.job
    found = [f"analytic: {job.implementation}'s layers with {job.attention} attention"]
    if stage.ranks > 1:
        last = stage.rank + stage.ranks - 1
        found.append(f"ranks {stage.rank} to {last} are alike, or hold less where a shard is uneven")
    if job.gpu is None:
        found.append("no card named: cuBLAS workspaces as on an H100")
    if job.data_parallel.kind == "zero3":
        found.append("ZeRO 3 gathers layer by layer as FSDP2 does; DeepSpeed's own prefetching takes more")
    return tuple(found)


def _check(job: Job) -> None:
    """Raise ``UsageMistake`` where parts of ``job`` do not go together."""
    if job.optimizer.in_backward and job.accumulation > 1:
        raise UsageMistake("an optimizer step in backward cannot accumulate gradients: write accumulation 1")
