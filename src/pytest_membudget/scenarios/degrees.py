"""How many GPUs a scenario has, and how they are shared out among the degrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..formulas.job import Degrees, Job
from ..user_input.mistakes import Mistakes
from .grid import Point

_REPLICATE, _SHARD = "data_parallel_replicate_degree", "data_parallel_shard_degree"
#: Those whose product is the number of GPUs.
_FACTORS = (
    _REPLICATE,
    _SHARD,
    "tensor_parallel_degree",
    "context_parallel_degree",
    "pipeline_parallel_degree",
)
_REST = -1


def degrees_of(job: Job, point: Point, values: Mapping[str, Any], mistakes: Mistakes) -> Degrees:
    """The degrees that ``values`` say; a shard degree that is not said takes the GPUs that are left."""
    written = {name: values[name] for name in Degrees.__slots__ if name in values}
    said: dict[str, Any] = {name: value for name, value in written.items() if value != _REST}
    degrees = replace(job.degrees, **said)
    gpus = values.get("gpus")
    takes = _taker(job, values, written)
    if gpus is None:
        if written.get(_SHARD) == _REST:
            mistakes.add(point.fields[_SHARD], f"{_SHARD}: -1 is the GPUs that are left; write gpus: too")
        return degrees
    if takes is not None:
        others = _with(degrees, takes, 1)
        if gpus % others.gpus == 0:
            return _with(degrees, takes, gpus // others.gpus)
        degrees = others
    if degrees.gpus != gpus:
        product = " x ".join(
            f"{name} {getattr(degrees, name)}" for name in _FACTORS if getattr(degrees, name) > 1
        )
        found = f"the product of the degrees is {degrees.gpus} ({product or 'all are 1'})"
        mistakes.add(point.fields["gpus"], f"gpus: {gpus}: {found}; write degrees that make {gpus}")
    return degrees


def _with(degrees: Degrees, name: str, value: int) -> Degrees:
    changes: dict[str, Any] = {name: value}
    return replace(degrees, **changes)


def _taker(job: Job, values: Mapping[str, Any], written: Mapping[str, Any]) -> str | None:
    """The degree that takes the GPUs that are left; None where all are said."""
    if written.get(_SHARD) == _REST:
        return _SHARD
    if _SHARD in written:
        return None
    kind = values.get("data_parallel", {}).get("kind", job.data_parallel.kind)
    if kind == "ddp":
        return None if _REPLICATE in written else _REPLICATE
    return _SHARD
