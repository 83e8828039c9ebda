"""Makes jobs for the formulas, and budgets, of the fields of scenarios; refuses jobs that cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..allocator.settings import AllocatorSettings
from ..budgets.budget import Budget
from ..budgets.marker import check_budget
from ..budgets.settings import DEFAULT_GPU
from ..errors import MembudgetError, UsageMistake
from ..formulas.job import Adapter, Degrees, Generation, Job
from ..formulas.kernels.cublas import cublas_workspace_bytes
from ..formulas.model import Experts, Layer, Model
from ..formulas.optimizers.registry import family_of, implementation_of
from ..formulas.refused import refused
from ..names import ALLOC_CONF
from ..user_input.fields import read_fields
from ..user_input.nodes import Mistakes
from .models import base_of, model_of
from .reading import Entry, Written
from .schema import SCENARIO

#: Fields of a job that scenarios have under the same name, outside of tables.
_SAME = (
    *("implementation", "attention", "micro_batch", "sequence", "source_sequence", "accumulation"),
    *("zeroes_to_none", "expandable_segments"),
)
#: Tables of a scenario that are one of a job's parts, field by field.
_PARTS = ("optimizer", "precision", "checkpointing", "loss", "data_parallel")
#: Fields of a scenario that a budget has under the same name.
_OF_THE_BUDGET = ("gib", "gpu", "metric", "components", "host_gib", "reason")
#: Pieces of a chunked loss: torchtune's ``num_output_chunks`` (torchtune/modules/loss, v0.6.1).
_CHUNKS = 8

_REPLICATE, _SHARD = "data_parallel_replicate_degree", "data_parallel_shard_degree"
#: Degrees whose product is the number of GPUs.
_FACTORS = (
    _REPLICATE,
    _SHARD,
    "tensor_parallel_degree",
    "context_parallel_degree",
    "pipeline_parallel_degree",
)
_ENVIRONMENT, _CUBLAS = "environment", "CUBLAS_WORKSPACE_CONFIG"
#: The shard degree that takes the GPUs that are left.
_REST = -1


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test of a scenario file: its job and its budget."""

    job: Job
    budget: Budget


def read_scenario(entry: Entry, folder: Path, defaults: Mapping[str, Any]) -> Scenario:
    """The scenario of ``entry``, whose paths begin at ``folder``. ``defaults``: the settings' of budgets.

    Raises ``UsageMistake`` with a line for each mistake: file, line and what to write.
    """
    if entry.mistakes:
        raise UsageMistake("\n".join(entry.mistakes))
    mistakes = Mistakes()
    values = read_fields(SCENARIO, entry.fields, entry.node, "", mistakes)
    mistakes.raise_all()
    assert values is not None
    written = Written(entry, values, mistakes, folder)
    budget = Budget(**{**defaults, **written.of(_OF_THE_BUDGET)})
    check_budget(budget, entry.fields, entry.node, mistakes)
    job = base_of(written)
    mistakes.raise_all()
    assert job is not None
    job = replace(_with_fields(job, written), gpu=budget.gpu or DEFAULT_GPU)
    mistakes.raise_all()
    _check_job(job, written)
    mistakes.raise_all()
    return Scenario(job, replace(budget, gpus=job.degrees.gpus))


def _with_fields(job: Job, written: Written) -> Job:
    values = written.values
    changes = {**written.of(_SAME), "degrees": _degrees(job, written)}
    for name, value in written.of(_PARTS).items():
        if value.get("kind") == "chunked":
            value = {"chunks": _CHUNKS, **value}
        changes[name] = replace(getattr(job, name), **value)
    for name, value in written.of(("offload", "compiled")).items():
        changes[name] = frozenset(value)
    if "method" in values:
        changes["adapter"] = _adapter(values["method"], written)
    if "generate" in values:
        rest = dict(values["generate"])
        changes |= {"task": "generate", "sequence": rest.pop("prompt"), "generation": Generation(**rest)}
    if "teacher" in values:
        teacher = model_of("teacher", (), written)
        changes |= {"teacher": teacher, "teacher_type": values["teacher"].get("type")}
    return _with_environment(replace(job, **changes), written)


def _adapter(values: Mapping[str, Any], written: Written) -> Adapter | None:
    rest = dict(values)
    kind = rest.pop("kind", "full")
    if kind == "full":
        if rest:
            what = f"full has no {' and no '.join(rest)}; write kind: lora, or leave it out"
            written.refuse("method", what)
        return None
    missing = [name for name in ("rank", "targets") if name not in rest]
    if missing:
        example = f"method: {{kind: {kind}, rank: 16, targets: [q_proj, v_proj]}}"
        written.refuse("method", f"{kind} needs {' and '.join(missing)}, as in {example}")
        return None
    if "type" in rest:
        rest["number_type"] = rest.pop("type")
    if kind == "qlora":
        rest.setdefault("base", "nf4")
    return Adapter(is_dora=kind == "dora", **rest)


def _degrees(job: Job, written: Written) -> Degrees:
    """The degrees as written; a shard degree that is not written is what the other degrees leave."""
    own = written.of(Degrees.__slots__)
    degrees = replace(job.degrees, **{name: value for name, value in own.items() if value != _REST})
    gpus = written.values.get("gpus")
    if gpus is None:
        if own.get(_SHARD) == _REST:
            written.refuse(_SHARD, "-1 is the GPUs that are left; write gpus: too")
        return degrees
    rest = _degree_of_rest(job, own, written.values)
    if rest is not None:
        left: dict[str, Any] = {rest: 1}
        degrees = replace(degrees, **left)
        if gpus % degrees.gpus == 0:
            left[rest] = gpus // degrees.gpus
            return replace(degrees, **left)
    if degrees.gpus != gpus:
        product = " x ".join(
            f"{name} {getattr(degrees, name)}" for name in _FACTORS if getattr(degrees, name) > 1
        )
        found = f"the product of the degrees is {degrees.gpus} ({product or 'all are 1'})"
        written.refuse("gpus", f"{gpus}: {found}; write degrees that make {gpus}")
    return degrees


def _degree_of_rest(job: Job, own: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The degree that takes the GPUs that are left; None where all are written."""
    if own.get(_SHARD) == _REST:
        return _SHARD
    if _SHARD in own:
        return None
    kind = values.get("data_parallel", {}).get("kind", job.data_parallel.kind)
    if kind == "ddp":
        return None if _REPLICATE in own else _REPLICATE
    return _SHARD


def _with_environment(job: Job, written: Written) -> Job:
    """``job`` with the scenario's environment variables; unknown variables are mistakes."""
    variables = written.values[_ENVIRONMENT].plain if _ENVIRONMENT in written.values else {}
    for name, value in variables.items():
        try:
            job = _with_variable(job, name, str(value))
        except MembudgetError as error:
            written.refuse(_ENVIRONMENT, str(error))
    return job


def _with_variable(job: Job, name: str, value: str) -> Job:
    if name == _CUBLAS:
        size_bytes = cublas_workspace_bytes((9, 0), (2, 13), value)
        if job.megatron is not None:
            job = replace(job, megatron=replace(job.megatron, cublas_workspace_bytes=size_bytes))
        return replace(job, cublas_workspace_config=value)
    if name not in ALLOC_CONF:
        raise UsageMistake(f"nothing reads {name}; the variables are {_CUBLAS}, {', '.join(ALLOC_CONF)}")
    settings = AllocatorSettings.parse(value, name)
    if settings != AllocatorSettings(expandable_segments=settings.expandable_segments):
        raise UsageMistake(
            f"{name}={value}: formulas know expandable_segments alone; run the step itself in a marked test"
        )
    return replace(job, expandable_segments=settings.expandable_segments)


def _check_job(job: Job, written: Written) -> None:
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
