"""What of a test's figures is over its budget: by how much, its rows, and what to write to allow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..budgets.budget import Budget
from ..budgets.verdict import suggested_gib
from ..memory_report import Holder
from ..results.test_result import TestResult
from ..units import bytes_of_gib


@dataclass(frozen=True, slots=True)
class Over:
    """What decides that a test is over its budget."""

    of: str
    """Of which memory: ``activations``; empty for the budget's metric."""
    bytes: int
    rows: Sequence[Holder]
    """Who holds that memory."""
    write: tuple[str, Any]
    """The mark's argument, and a value that is enough."""


def over_of(result: TestResult) -> Over | None:
    """What of ``result`` is over, as ``judge`` looks for it; None if nothing is, or there is no figure."""
    figure, budget, limit_bytes = result.figure, result.budget, result.limit_bytes
    if figure is None:
        return None
    if limit_bytes is not None and figure.peak_bytes > limit_bytes:
        write = "gib", _enough(figure.bound_bytes(figure.peak_bytes))
        return Over("", figure.peak_bytes - limit_bytes, figure.holders, write)
    found = _parts(result, budget) if budget is not None else ()
    return next((over for over in found if over.bytes > 0), None)


def _parts(result: TestResult, budget: Budget) -> Iterator[Over]:
    reports = result.measurements or result.estimates
    for component, gib in budget.components.items():
        worst = max(reports, key=lambda one: one.components.get(component, 0))
        size_bytes = worst.components.get(component, 0)
        rows = [row for row in worst.holders if row.component == component]
        enough = {**budget.components, component: suggested_gib(size_bytes)}
        yield Over(
            component,
            size_bytes - bytes_of_gib(gib),
            rows,
            ("components", {name: _plain(size) for name, size in enough.items()}),
        )
    if budget.held_gib is not None:
        worst = max(reports, key=lambda one: one.held_bytes or 0)
        size_bytes, rows = worst.held_bytes or 0, [*worst.held.holders] if worst.held is not None else []
        excess_bytes = size_bytes - bytes_of_gib(budget.held_gib)
        yield Over("what is held when the body ends", excess_bytes, rows, ("held_gib", _enough(size_bytes)))
    if budget.host_gib is not None and result.host_bytes is not None:
        hosts = [one.host for one in result.estimates if one.host is not None]
        rows = [*max(hosts, key=lambda one: one.peak_bytes).holders] if hosts else []
        excess_bytes = result.host_bytes - bytes_of_gib(budget.host_gib)
        yield Over("host memory", excess_bytes, rows, ("host_gib", _enough(result.host_bytes)))


def _enough(size_bytes: int) -> float:
    return _plain(suggested_gib(size_bytes))


def _plain(gib: float) -> float:
    return int(gib) if gib == int(gib) else gib
