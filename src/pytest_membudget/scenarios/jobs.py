"""Makes jobs and budgets of the fields of scenarios; refuses what nothing can run."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..budgets.budget import ARGUMENTS, Budget
from ..budgets.marked_test import Program
from ..budgets.marker import check_budget
from ..errors import UsageMistake
from ..recipes.known import mistakes_in, unread
from ..user_input.fields import Table, read_fields
from ..user_input.nodes import Mistakes
from .job import FACTORS, Adapter, Degrees, Generation, Implementation, Job, Model, Precision, Source
from .reading import Entry, Written
from .schema import SCENARIO

#: Fields of a job that scenarios have under the same name, outside of tables.
_SAME = ("attention", "micro_batch", "sequence", "accumulation", "offload", "compiled")
#: Tables of a scenario that are one of a job's parts, field by field.
_PARTS = ("optimizer", "precision", "checkpointing", "loss", "data_parallel")

_REPLICATE, _SHARD = "data_parallel_replicate_degree", "data_parallel_shard_degree"
#: The shard degree that takes the GPUs that are left.
_REST = -1


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test of a scenario file: its job, its budget, and how it is run."""

    job: Job
    budget: Budget
    program: Program | None
    """None: formulas compute it."""


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
    job = _job(written)
    mistakes.raise_all()
    assert job is not None
    own = {name: value for name, value in values.items() if name in ARGUMENTS.by_name}
    budget = replace(Budget(**{**defaults, **own}), gpus=job.degrees.gpus)
    check_budget(budget, entry.fields, entry.node, mistakes)
    _check_job(job, written)
    mistakes.raise_all()
    if job.implementation == "formulas":
        return Scenario(job, budget, None)
    words = ("-m", f"pytest_membudget.recipes.{job.implementation}", json.dumps(job.to_json()))
    return Scenario(job, budget, Program(words, str(folder), values.get("environment", ())))


def _job(written: Written) -> Job | None:
    values = written.values
    model = model_of("model", written)
    if model is None:
        return None
    job = Job(model, implementation_of(model, written))
    if job.implementation == "torchtitan":  # what it has by default (job_config.py, v0.2.2)
        job = replace(job, precision=Precision("fsdp", "fp32", "bf16", "fp32"))
    changes: dict[str, Any] = {**written.of(_SAME), "degrees": _degrees(job, written)}
    for name, value in written.of(_PARTS).items():
        changes[name] = replace(getattr(job, name), **value)
    if "method" in values:
        changes["adapter"] = _adapter(values["method"], written)
    if "generate" in values:
        changes["generation"] = Generation(**values["generate"])
    if "teacher" in values:
        changes |= {"teacher": model_of("teacher", written), "teacher_type": values["teacher"].get("type")}
    return replace(job, **changes)


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
    if kind == "qlora":
        rest.setdefault("base", "nf4")
    return Adapter(kind, **rest)


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
        factors = {name: getattr(degrees, name) for name in FACTORS}
        product = " x ".join(f"{name} {factor}" for name, factor in factors.items() if factor > 1)
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
    if kind in ("ddp", "zero1"):
        return None if _REPLICATE in own else _REPLICATE
    return _SHARD


def _check_job(job: Job, written: Written) -> None:
    """Report what nothing reads, and what cannot run, at the field that has to change."""
    for name in _names(written):
        if what := unread(job.implementation, name):
            written.refuse(name, what)
    for name, what in (*_of_any(job), *mistakes_in(job)):
        written.refuse(name, what)


def _names(written: Written) -> Iterator[str]:
    """The fields that are written, those of a table as ``table.field``; a budget's own are the gate's."""
    for name, value in written.values.items():
        kind = SCENARIO.by_name[name].kind
        if isinstance(kind, Table) and isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)
        elif name not in ARGUMENTS.by_name and name != "name":
            yield name


def _of_any(job: Job) -> Iterator[tuple[str, str]]:
    """Of whoever's code runs it."""
    degrees = job.degrees
    if job.sequence % degrees.context_parallel_degree:
        context = degrees.context_parallel_degree
        yield "context_parallel_degree", f"{context} does not divide the sequence of {job.sequence}"
    if job.optimizer.in_backward and job.accumulation > 1:
        yield "accumulation", "with in_backward each micro-batch is a step; leave one of them out"
    interleaves = degrees.pipeline_parallel_schedule == "Interleaved1F1B"
    if degrees.virtual_stages > 1 and not interleaves:
        yield "virtual_stages", "several are of pipeline_parallel_schedule: Interleaved1F1B; write that too"
    if interleaves and degrees.virtual_stages == 1:
        yield (
            "pipeline_parallel_schedule",
            "Interleaved1F1B has several model chunks; write virtual_stages: 2",
        )


#: Whose code runs a model where the scenario does not say it.
_USUAL: Final[Mapping[Source, Implementation]] = {
    "config": "transformers",
    "torchtitan": "torchtitan",
    "megatron": "megatron",
    "shape": "plain",
}
#: What else can run it: ``formulas`` compute any.
_RUNS: Final[Mapping[Source, tuple[Implementation, ...]]] = {
    **{source: (usual, "formulas") for source, usual in _USUAL.items()},
    "config": ("transformers", "plain", "formulas"),
}
_CONFIG: Final = "config.json"


def model_of(name: str, written: Written) -> Model | None:
    """The model that the field ``name`` names; None, and a mistake, if it cannot be read."""
    node, values = written.entry.fields[name], written.values[name]
    [source] = [one for one in _USUAL if one in values]
    try:
        return _model(source, values[source], written.folder)
    except UsageMistake as error:
        place = node.value[source] if isinstance(node.value, dict) else node
        written.mistakes.refuse(place, f"{name}.{source}", str(error))
        return None


def implementation_of(model: Model, written: Written) -> Implementation:
    """Whose code runs ``model``; a mistake if that code cannot."""
    named: Implementation | None = written.values.get("implementation")
    runs = _RUNS[model.source]
    if named is not None and named not in runs:
        written.refuse("implementation", f"{named} runs no model.{model.source}; write {' or '.join(runs)}")
    return named or _USUAL[model.source]


def _model(source: Source, written: Any, folder: Path) -> Model:
    if source == "config" and not isinstance(written.value, dict):
        path = folder / written.value
        path = path / _CONFIG if path.is_dir() else path
        name = path.parent.name if path.name == _CONFIG else path.name.removesuffix(".json")
        return Model(source, name, json.dumps(_read(path)))
    if source == "torchtitan":
        return Model(source, written, json.dumps(written))
    content = written.plain
    if source == "megatron":
        content = {key.removeprefix("--").replace("_", "-"): value for key, value in content.items()}
    if source == "config":
        _check(content)
    return Model(source, source, json.dumps(content))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageMistake(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}); write its path"
        ) from None
    except ValueError as error:
        raise UsageMistake(f"{path} is no JSON ({error}); write the path of a config.json") from None
    return _check(content)


def _check(content: Any) -> Mapping[str, Any]:
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UsageMistake("there is no model_type in it; write a Hugging Face config.json")
    return content
