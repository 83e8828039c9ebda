"""Marks the tests that ``--membudget-all`` or ``[tool.membudget] tests`` selects; in the worker too."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from ..budgets.node_ids import nodeid_of
from ..names import MARKER

#: The pattern of ``--membudget-all``.
ALL: Final = "*"
_MARK: Final = getattr(pytest.mark, MARKER)()


class Selection:
    """Adds a mark without a limit to selected test functions that have no mark."""

    def __init__(self, patterns: Sequence[str], root: Path) -> None:
        """``patterns``: of files or folders, relative to ``root``, or of node ids."""
        self._root = root
        #: the patterns, and whether each has matched a test, marked or not
        self._patterns = dict.fromkeys(patterns, False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Add the mark before the gate looks for marks."""
        if not isinstance(item, pytest.Function):
            return
        matching = [one for one in self._patterns if self._matches(one, item.path, nodeid_of(item))]
        self._patterns.update(dict.fromkeys(matching, True))
        if matching and item.get_closest_marker(MARKER) is None:
            item.add_marker(_MARK)

    def covers(self, file: Path) -> bool:
        """Whether tests of ``file`` may be selected."""
        return any(self._matches(one.partition("::")[0], file) for one in self._patterns)

    @property
    def unmatched(self) -> list[str]:
        """Patterns that no collected test has matched."""
        return [one for one, has_matched in self._patterns.items() if not has_matched and one != ALL]

    def _matches(self, pattern: str, path: Path, nodeid: str = "") -> bool:
        file = os.path.relpath(path, self._root).replace(os.sep, "/")
        literal = pattern.replace("[", "[[]")  # brackets of parameters
        names = (file, nodeid)
        return file.startswith(f"{pattern.rstrip('/')}/") or any(
            name == pattern or fnmatch.fnmatchcase(name, literal) for name in names
        )


def is_selected(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget by selection alone."""
    return all(mark is _MARK.mark for mark in item.iter_markers(MARKER))
