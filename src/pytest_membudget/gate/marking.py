"""Reads a test's marks and finds their line: one ``MarkedTest`` for each item."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.marker import read_budget
from ..budgets.marker_line import find_marker_line
from ..budgets.node_ids import key_of, nodeid_of
from ..budgets.settings import Settings
from ..errors import MembudgetError
from ..names import MARKER
from ..scenarios.items import EntryItem, ScenarioItem
from .selection import is_selected

_MARKED = pytest.StashKey[MarkedTest]()


def is_marked(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget."""
    return item.get_closest_marker(MARKER) is not None


def has_body(item: pytest.Item) -> bool:
    """Whether ``item`` runs code; a scenario does not."""
    return not isinstance(item, ScenarioItem)


def marked_test(item: pytest.Item, settings: Settings) -> MarkedTest:
    """The ``MarkedTest`` of ``item``, read at the first call. Entries of YAML files make it themselves."""
    known = item.stash.get(_MARKED, None)
    if known is None:
        known = item.stash[_MARKED] = _read(item, settings)
    return known


def _read(item: pytest.Item, settings: Settings) -> MarkedTest:
    if isinstance(item, EntryItem):
        return item.marked_test(settings.marker_defaults())
    file, line = _place_of(item)
    budget, mistake = None, ""
    marks = [(mark.args, mark.kwargs) for mark in item.iter_markers(MARKER)]
    try:
        budget = read_budget(marks, settings.marker_defaults())
    except MembudgetError as error:
        mistake = f"{file}:{line}: {error}"
    except Exception as error:  # a value that cannot be compared (an array); it must not end the session
        mistake = unreadable(file, line, error)
    fixtures = frozenset(getattr(item, "fixturenames", ()))
    test = MarkedTest(nodeid_of(item), key_of(item), str(item.path), file, line, budget, mistake)
    return replace(test, fixtures=fixtures, is_selected=is_selected(item))


def unreadable(file: str, line: int, error: Exception) -> str:
    """The message for a mark at ``file:line`` whose values raise ``error`` when they are used."""
    return (
        f"{file}:{line}: the budget could not be checked ({type(error).__name__}: {error}); "
        "write plain numbers and texts in the mark, as in mem_budget(gib=40)"
    )


def _place_of(item: pytest.Item) -> tuple[str, int]:
    """File and line of the closest mark of ``item``; the test's own where the mark is not in the source."""
    source = _source_of(item.path)
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    path = [*classes, getattr(item, "originalname", None) or item.name]
    mark = item.get_closest_marker(MARKER)
    found = find_marker_line(source, path, MARKER, mark.kwargs if mark else {}) if source else None
    if found is not None:
        return os.path.relpath(item.path, item.config.rootpath).replace(os.sep, "/"), found
    file, line, _ = item.location
    return file.replace(os.sep, "/"), (line or 0) + 1


def _source_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
