"""Makes jobs for the formulas, and budgets, of the fields of scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..budgets.budget import Budget
from ..budgets.marker import check_budget
from ..budgets.settings import DEFAULT_GPU
from ..errors import UsageMistake
from ..formulas.job import Adapter, Degrees, Generation, Job
from ..user_input.fields import read_fields
from ..user_input.mistakes import Mistakes
from .bases import base_of
from .environment import with_environment
from .grid import Point, Written
from .models import ModelReader
from .rules import check_job
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
#: The shard degree that takes the GPUs that are left.
_REST = -1


@dataclass(frozen=True, slots=True)
class Scenario:
    """One test of a scenario file: its job and its budget."""

    job: Job
    budget: Budget


class ScenarioReader:
    """Turns the points of one file into scenarios; what several of them share is read once."""

    def __init__(self, folder: Path) -> None:
        """``folder``: where the file lies; its paths begin there."""
        self._models = ModelReader(folder)
        #: how many failures of the file have listed changes that reduce memory
        self.advised = 0

    def read(self, point: Point, defaults: Mapping[str, Any]) -> Scenario:
        """The scenario of ``point``. ``defaults``: the settings' defaults of budgets.

        Raises ``UsageMistake`` with a line for each mistake: file, line and what to write.
        """
        if point.mistakes:
            raise UsageMistake("\n".join(point.mistakes))
        mistakes = Mistakes()
        values = read_fields(SCENARIO, point.fields, point.node, "", mistakes)
        mistakes.raise_all()
        assert values is not None
        written = Written(point, values, mistakes)
        budget = Budget(**{**defaults, **written.of(_OF_THE_BUDGET)})
        check_budget(budget, point.fields, point.node, mistakes)
        job = base_of(self._models, written)
        mistakes.raise_all()
        assert job is not None
        job = replace(self._with_fields(job, written), gpu=budget.gpu or DEFAULT_GPU)
        mistakes.raise_all()
        check_job(job, written)
        mistakes.raise_all()
        return Scenario(job, replace(budget, gpus=job.degrees.gpus))

    def _with_fields(self, job: Job, written: Written) -> Job:
        """``job`` with the scenario's own fields."""
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
            teacher = self._models.model_of("teacher", (), written)
            changes |= {"teacher": teacher, "teacher_type": values["teacher"].get("type")}
        return with_environment(replace(job, **changes), written)


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
    takes_rest = _degree_of_rest(job, own, written.values)
    if gpus is None:
        if own.get(_SHARD) == _REST:
            written.refuse(_SHARD, "-1 is the GPUs that are left; write gpus: too")
        return degrees
    if takes_rest is not None:
        others = _with(degrees, takes_rest, 1)
        if gpus % others.gpus == 0:
            return _with(degrees, takes_rest, gpus // others.gpus)
        degrees = others
    if degrees.gpus != gpus:
        product = " x ".join(
            f"{name} {getattr(degrees, name)}" for name in _FACTORS if getattr(degrees, name) > 1
        )
        found = f"the product of the degrees is {degrees.gpus} ({product or 'all are 1'})"
        written.refuse("gpus", f"{gpus}: {found}; write degrees that make {gpus}")
    return degrees


def _with(degrees: Degrees, name: str, value: int) -> Degrees:
    changes: dict[str, Any] = {name: value}
    return replace(degrees, **changes)


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
