"""Estimates of captured steps beside what was measured of them, and what their histories have unequally.

What explains a difference is for people to write: ``explained.yaml`` in the folder of the captured steps, by
a step's id. What nobody has explained is listed with the requests that make up most of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pytest_membudget.errors import MembudgetError
from pytest_membudget.hardware.gpus import Gpu, find_gpu
from pytest_membudget.units import MIB

from .captured import Captured, read_captured
from .compact_history import read_snapshot
from .comparison import EXPLAINED_BEYOND, Comparison
from .history_comparison import Difference, differences, sides
from .step_processes import Run, StepProcess, started_ahead

EXPLAINED = "explained.yaml"
_PEAKS = ("allocated", "reserved")
_TOLD = 3
_LIMIT_SECONDS = 300.0


@dataclass(slots=True)
class CapturedAccuracy:
    """What came of a folder of captured steps."""

    comparisons: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the histories of steps that differ have unequally, and what else is good to know."""
    troubles: list[str] = field(default_factory=list)


def captured_accuracy(root: Path, ahead: int = 1) -> CapturedAccuracy:
    """Estimate every step under ``root`` in a process of its own. ``ValueError`` for a file that is none."""
    result = CapturedAccuracy()
    explained = _explained(root)
    cards: dict[str, Gpu] = {}
    todo: list[Captured] = []
    for captured in read_captured(root):
        card = str(captured.versions["card"])
        if captured.outcome != "ok":
            told = f"{captured.outcome} when captured on {card}: {captured.content['message']}"
            result.notes.append(f"{captured.step.id}: {told.splitlines()[0]}")
            continue
        try:
            cards[card] = find_gpu(card)
        except MembudgetError as error:
            result.troubles.append(f"{captured.step.id}: {error}")
            continue
        todo.append(captured)
    with tempfile.TemporaryDirectory(prefix="membudget-captured-") as scratch:
        for captured, answer in _estimates(todo, cards, Path(scratch), ahead):
            _add(result, captured, answer, cards, explained, Path(scratch))
    return result


def _estimates(
    todo: Sequence[Captured], cards: Mapping[str, Gpu], scratch: Path, ahead: int
) -> Iterator[tuple[Captured, dict[str, Any]]]:
    runs = [Run(one.step, "estimated", "stand-in", cards[one.versions["card"]].name) for one in todo]
    processes = started_ahead(runs, scratch, ahead)
    for captured, process in zip(todo, processes, strict=True):
        yield captured, process.answer(_LIMIT_SECONDS)


def _add(
    result: CapturedAccuracy,
    captured: Captured,
    answer: Mapping[str, Any],
    cards: Mapping[str, Gpu],
    explained: Mapping[str, str],
    scratch: Path,
) -> None:
    name = captured.step.id
    if answer["outcome"] != "ok":
        result.troubles.append(
            f"{name}: captured, and not estimated: {answer['outcome']}: {answer['message']}"
        )
        return
    for metric, size in captured.content["changed_by_measuring"].items():
        result.notes.append(f"{name}: measuring changed {metric} by {size:+,} bytes; the bare run counts")
    text = explained.get(name, "")
    compared = list(_comparisons(captured, answer["report"], cards, text))
    result.comparisons += compared
    if not text:
        result.troubles += [f"{name}: {line}" for line in _unmeasured(captured, answer["report"])]
    peaks = [one for one in compared if not one.is_component]
    if any(one.estimate_bytes != one.measured_bytes for one in peaks) and not text:
        gpu = cards[captured.versions["card"]]
        result.notes += [f"{name}: not explained: {line}" for line in _unequal(captured, gpu, scratch)]


def _comparisons(
    captured: Captured, report: Mapping[str, Any], cards: Mapping[str, Gpu], explained: str
) -> Iterator[Comparison]:
    """The peaks of the bare run; components, as measured, where they are off by more than 1%."""
    versions = captured.versions
    setup = f"{versions['card']}, driver {versions['driver']}, torch {versions['torch']}"
    family = f"measured on {cards[versions['card']].name}"

    def comparison(metric: str, estimate: int, measured: int, *, is_component: bool = False) -> Comparison:
        return Comparison(
            captured.step.id, family, metric, estimate, measured, explained=explained,
            source="benchmarks/capture.py", setup=setup, is_component=is_component,
        )  # fmt: skip

    for metric in _PEAKS:
        yield comparison(metric, report["peak"][metric], captured.content["bare"][f"{metric}_bytes"])
    components = captured.content["measured"]["components"]
    for name, estimate in report["components"].items():
        measured = components.get(name, 0)
        if measured and abs(estimate - measured) > EXPLAINED_BEYOND * measured:
            yield comparison(name, estimate, measured, is_component=True)


def _unmeasured(captured: Captured, report: Mapping[str, Any]) -> Iterator[str]:
    """Components that were estimated, and of which nothing was measured: no ratio tells them."""
    components = captured.content["measured"]["components"]
    for name, estimate in report["components"].items():
        if estimate and not components.get(name, 0):
            yield f"component {name}: {estimate:,} bytes estimated, none measured"


def _unequal(captured: Captured, gpu: Gpu, scratch: Path) -> list[str]:
    """The requests that make up most of the difference, or why none can be named."""
    if captured.history is None:
        return ["its history was not kept"]
    path = scratch / f"{captured.step.id}.estimated.json.gz"
    process = StepProcess(Run(captured.step, "estimated", "stand-in", gpu.name, path), scratch, -1)
    answer = process.answer(_LIMIT_SECONDS)
    if not path.exists():
        return [f"no history of its estimate ({answer.get('message', answer['outcome'])})"]
    recorded, estimated = sides(read_snapshot(captured.history), read_snapshot(path))
    operators = {**estimated.operators, **{key: name for key, name in recorded.operators.items() if name}}
    found = differences(recorded.held, estimated.held, operators)
    if found:
        return [f"held at the peak: {_told(one)}" for one in found[:_TOLD]]
    found = differences(recorded.requests, estimated.requests, operators)
    if found:
        return [f"asked for: {_told(one)}" for one in found[:_TOLD]]
    return ["both histories ask for the same: the order or the moment of frees differs"]


def _told(difference: Difference) -> str:
    allocation = difference.allocation
    return (
        f"{difference.operator or 'an operator without a name'} at {allocation.place}, "
        f"{allocation.size_bytes:,} bytes, x{difference.first_count} measured, "
        f"x{difference.second_count} estimated ({difference.bytes / MIB:+,.3f} MiB)"
    )


def _explained(root: Path) -> Mapping[str, str]:
    path = root / EXPLAINED
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    return {str(name): str(text) for name, text in (content or {}).items()}
