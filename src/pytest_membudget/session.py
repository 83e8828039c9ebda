"""What a session gathers: a row for every marked test, estimated when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from .budget import Budget
from .config import DEFAULT_GPU, Settings
from .errors import MembudgetError
from .estimate import Estimate, Estimator, capacity_of
from .launch import Order
from .marker import MARKER, read_budget
from .marker_place import find_marker_line
from .reporting.rows import Row, make_row
from .verdict import ERROR, Verdict

#: Called before each estimate with its number, how many there are, and the test.
Progress = Callable[[int, int, str], None]


class BudgetSession:
    """The budgets of one session, and what was found out about them."""

    def __init__(self, settings: Settings, root: Path, args: Sequence[str], start_dir: str) -> None:
        self.settings = settings
        self.rows: dict[str, Row] = {}
        self._root = root
        self._args = args
        self._dir = start_dir
        self._files: list[str] = []
        self._estimator: Estimator | None = None

    def plan(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The marked ones of ``items``, which are those that will run; their files are what workers collect."""
        marked = [item for item in items if is_marked(item)]
        self._files = list(dict.fromkeys(str(item.path) for item in marked))
        return marked

    def estimate_all(self, items: Sequence[pytest.Item], progress: Progress) -> None:
        """Estimate ``items`` one after the other."""
        for number, item in enumerate(items, start=1):
            progress(number, len(items), item.nodeid)
            self.row_of(item)

    def row_of(self, item: pytest.Item) -> Row:
        """The row of ``item``; it is estimated now if it has not been."""
        row = self.rows.get(item.nodeid)
        if row is None:
            row = self.rows[item.nodeid] = self._make_row(item)
        return row

    def close(self) -> None:
        """End the worker."""
        if self._estimator is not None:
            self._estimator.close()
            self._estimator = None

    def _make_row(self, item: pytest.Item) -> Row:
        file, line = place_of(item)
        budget: Budget | None = None
        try:
            budget = read_budget(_marks(item), self.settings.marker_defaults())
            estimate = self._estimates().estimate(item.nodeid, str(item.path), budget)
        except MembudgetError as error:
            estimate = Estimate(Verdict(ERROR, f"{file}:{line}: {error}"))
        return make_row(
            nodeid=item.nodeid,
            file=file,
            line=line,
            budget=budget.to_json() if budget is not None else None,
            limit_bytes=_limit_bytes(budget),
            verdict=estimate.verdict.name,
            reason=estimate.verdict.reason,
            details=estimate.details,
            raised=estimate.raised,
            estimates=[report.to_json() for report in estimate.reports],
        )

    def _estimates(self) -> Estimator:
        if self._estimator is None:
            self._estimator = Estimator(
                Order(
                    args=self._args,
                    dir=self._dir,
                    files=self._files,
                    gpu=self.settings.gpu or DEFAULT_GPU,
                    timeout=self.settings.timeout,
                )
            )
        return self._estimator


def is_marked(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget."""
    return item.get_closest_marker(MARKER) is not None


def place_of(item: pytest.Item) -> tuple[str, int]:
    """File and line of the closest mark of ``item``; the test's own line where the mark is not in the source."""
    path, line, _ = item.location
    source = _source_of(item.path)
    names = [part.partition("[")[0] for part in item.nodeid.split("[")[0].split("::")[1:]]
    found = find_marker_line(source, names, MARKER) if source is not None else None
    return path.replace(os.sep, "/"), found if found is not None else (line or 0) + 1


def guard_of(item: pytest.Item) -> str | None:
    """The ``skipif`` mark of ``item`` as written, if it has one."""
    mark = item.get_closest_marker("skipif")
    if mark is None:
        return None
    return f"skipif({', '.join(repr(value) for value in mark.args)})"


def _source_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _marks(item: pytest.Item) -> list[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    return [(mark.args, mark.kwargs) for mark in item.iter_markers(MARKER)]


def _limit_bytes(budget: Budget | None) -> int | None:
    if budget is None:
        return None
    if budget.gib is None and budget.gpu is not None:
        return capacity_of(budget)
    return budget.limit_bytes
