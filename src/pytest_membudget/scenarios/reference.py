"""A scenario that a marked test names: its analytic figure stands beside the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..budgets.budget import Budget
from ..errors import UsageMistake
from ..memory_report import MemoryReport
from ..user_input.mistakes import nearest
from .estimating import reports_of
from .grid import Point, points_of
from .jobs import Scenario, ScenarioReader
from .reading import read_entries


def analytic_reports(
    budget: Budget, test_file: Path, defaults: Mapping[str, Any]
) -> tuple[MemoryReport, ...]:
    """The reports of the scenario that ``budget`` names as ``file::name``, from ``test_file``'s folder.

    They are of the budget's metric. Raises ``UsageMistake`` for a scenario that is not there, cannot be
    reckoned or is for another number of GPUs.
    """
    assert budget.scenario is not None
    written, _, name = budget.scenario.partition("::")
    path = test_file.parent / written
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageMistake(
            f"mem_budget(scenario={budget.scenario!r}): {path} cannot be read ({error.strerror}); "
            f"write the file's path from {test_file.parent}"
        ) from None
    reader, points = _points(path, written, changed)
    if name not in points:
        near = nearest(name, tuple(points))
        hint = f"did you mean {near}?" if near else f"it has {', '.join(list(points)[:20])}"
        raise UsageMistake(f"mem_budget(scenario={budget.scenario!r}): {written} has no {name}; {hint}")
    scenario = _read(reader, points[name], defaults, budget)
    if scenario.budget.gpus != budget.gpus:
        raise UsageMistake(
            f"mem_budget(scenario={budget.scenario!r}) is for {scenario.budget.gpus} GPUs and the test for "
            f"{budget.gpus}; write gpus={scenario.budget.gpus}, or a scenario of as many"
        )
    return reports_of(scenario)


def _read(reader: ScenarioReader, point: Point, defaults: Mapping[str, Any], budget: Budget) -> Scenario:
    scenario = reader.read(point, defaults)
    return replace(scenario, budget=replace(scenario.budget, metric=budget.metric))


@lru_cache(maxsize=64)
def _points(path: Path, shown: str, changed: int) -> tuple[ScenarioReader, Mapping[str, Point]]:
    points = [point for entry in read_entries(path, shown) for point in points_of(entry)]
    return ScenarioReader(path.parent), {point.id: point for point in points}
