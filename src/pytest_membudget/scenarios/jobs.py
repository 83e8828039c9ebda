"""From a scenario's fields to the job that the formulas reckon, and to the budget it is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..budgets.budget import Budget
from ..budgets.marker import check_budget
from ..budgets.settings import DEFAULT_GPU
from ..errors import UsageMistake
from ..formulas.job import Adapter, Checkpointing, DataParallel, Generation, Job, Loss, Optimizer, Precision
from ..user_input.fields import read_fields
from ..user_input.mistakes import Mistakes
from ..user_input.nodes import Node
from .bases import base_of
from .degrees import degrees_of
from .grid import Point
from .models import ModelReader
from .rules import check_job
from .schema import SCENARIO

#: Fields of a job that scenarios have under the same name, and no table of their own.
_SAME = ("implementation", "attention", "micro_batch", "sequence", "source_sequence", "accumulation")
#: Tables of a scenario that are one of a job's parts, field by field.
_PARTS: Mapping[str, type] = {
    "optimizer": Optimizer,
    "precision": Precision,
    "checkpointing": Checkpointing,
    "loss": Loss,
    "data_parallel": DataParallel,
}
#: Pieces of a chunked loss: torchtune's ``num_output_chunks`` (torchtune/modules/loss, v0.6.1).
_CHUNKS = 8


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one test of a scenario file asks for."""

    job: Job
    budget: Budget


class ScenarioReader:
    """Turns the points of one file into scenarios; what several of them share is read once."""

    def __init__(self, folder: Path) -> None:
        """``folder``: where the file lies; its paths begin there."""
        self._models = ModelReader(folder)
        #: scenarios of the file that have been told what would lower their figures
        self.advised = 0

    def read(self, point: Point, defaults: Mapping[str, Any]) -> Scenario:
        """The scenario of ``point``; ``defaults`` are the budget's, of the settings.

        Raises ``UsageMistake``: every mistake on a line of its own, with file and line.
        """
        if point.mistakes:
            raise UsageMistake("\n".join(point.mistakes))
        mistakes = Mistakes()
        values = read_fields(SCENARIO, point.fields, point.node, "", mistakes)
        scenario = self._scenario(point, values, defaults, mistakes) if values is not None else None
        if scenario is None or mistakes:
            raise UsageMistake("\n".join(mistakes.lines))
        return scenario

    def _scenario(
        self, point: Point, values: Mapping[str, Any], defaults: Mapping[str, Any], mistakes: Mistakes
    ) -> Scenario | None:
        budget = _budget(point, values, defaults, mistakes)
        job = base_of(self._models, point, values, mistakes)
        if job is None or mistakes:
            return None
        job = self._with_fields(job, point, values, mistakes)
        job = replace(job, gpu=budget.gpu or DEFAULT_GPU)
        if not mistakes:
            check_job(job, point, values, mistakes)
        return Scenario(job, replace(budget, gpus=job.degrees.gpus))

    def _with_fields(self, job: Job, point: Point, values: Mapping[str, Any], mistakes: Mistakes) -> Job:
        """``job`` with what the scenario says itself."""
        changes: dict[str, Any] = {name: values[name] for name in _SAME if name in values}
        for name, description in _PARTS.items():
            if name in values:
                changes[name] = _part(getattr(job, name), description, values[name])
        changes["degrees"] = degrees_of(job, point, values, mistakes)
        for name, read in _OTHERS.items():
            if name in values:
                changes.update(read(values[name], point.fields[name], mistakes))
        if "teacher" in values:
            teacher = self._models.model_of(point.fields["teacher"], values["teacher"], (), mistakes)
            changes |= {"teacher": teacher, "teacher_type": values["teacher"].get("type")}
        return replace(job, **changes)


def _part(part: Any, description: type, values: Mapping[str, Any]) -> Any:
    """A part of a job as ``values`` say; what they leave out is as it was."""
    if description is Loss and values.get("kind") == "chunked":
        values = {"chunks": _CHUNKS, **values}
    return replace(part, **values)


def _adapter(values: Mapping[str, Any], node: Node, mistakes: Mistakes) -> dict[str, Any]:
    kind = values.get("kind", "full")
    extras = [name for name in values if name != "kind"]
    if kind == "full":
        if extras:
            mistakes.add(
                node, f"method: full has no {' and no '.join(extras)}; write kind: lora, or leave it out"
            )
        return {"adapter": None}
    missing = [name for name in ("rank", "targets") if name not in values]
    if missing:
        example = f"method: {{kind: {kind}, rank: 16, targets: [q_proj, v_proj]}}"
        mistakes.add(node, f"method: {kind} needs {' and '.join(missing)}, as in {example}")
        return {}
    rest = {
        "number_type" if name == "type" else name: value for name, value in values.items() if name != "kind"
    }
    if kind == "qlora":
        rest.setdefault("base", "nf4")
    return {"adapter": Adapter(is_dora=kind == "dora", **rest)}


def _generation(values: Mapping[str, Any], node: Node, mistakes: Mistakes) -> dict[str, Any]:
    rest = {name: value for name, value in values.items() if name != "prompt"}
    return {"task": "generate", "sequence": values["prompt"], "generation": Generation(**rest)}


def _offload(values: tuple[str, ...], node: Node, mistakes: Mistakes) -> dict[str, Any]:
    return {"offload": frozenset(values)}


def _compiled(values: tuple[str, ...], node: Node, mistakes: Mistakes) -> dict[str, Any]:
    return {"compiled": frozenset(values)}


def _zeroes(value: bool, node: Node, mistakes: Mistakes) -> dict[str, Any]:
    return {"zeroes_to_none": value}


def _segments(value: bool, node: Node, mistakes: Mistakes) -> dict[str, Any]:
    return {"expandable_segments": value}


#: Other fields, each with what it makes of its value.
_OTHERS: Mapping[str, Callable[[Any, Node, Mistakes], dict[str, Any]]] = {
    "method": _adapter,
    "generate": _generation,
    "offload": _offload,
    "compiled": _compiled,
    "zeroes_to_none": _zeroes,
    "expandable_segments": _segments,
}

#: Fields of a scenario that are the budget's, under the same name.
_OF_THE_BUDGET = ("gib", "gpu", "metric", "components", "host_gib", "reason")


def _budget(
    point: Point, values: Mapping[str, Any], defaults: Mapping[str, Any], mistakes: Mistakes
) -> Budget:
    budget = Budget(**{**defaults, **{name: values[name] for name in _OF_THE_BUDGET if name in values}})
    check_budget(budget, point.fields, point.node, mistakes)
    return budget
