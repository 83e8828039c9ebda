"""Which tests a session selects: by its command line, and without a mark, which the worker selects too."""

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from ..budgets.node_ids import nodeid_of
from ..names import MARKER

#: The pattern of ``--membudget=all``.
EVERY: Final = "*"
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
        return [one for one, has_matched in self._patterns.items() if not has_matched and one != EVERY]

    def _matches(self, pattern: str, path: Path, nodeid: str = "") -> bool:
        file = os.path.relpath(path, self._root).replace(os.sep, "/")
        literal = pattern.replace("[", "[[]")  # brackets of parameters
        is_named = any(one == pattern or fnmatch.fnmatchcase(one, literal) for one in (file, nodeid))
        return is_named or file.startswith(f"{pattern.rstrip('/')}/")


def is_selected(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget by selection alone."""
    return all(mark is _MARK.mark for mark in item.iter_markers(MARKER))


def is_whole(config: pytest.Config) -> bool:
    """Whether the session runs all tests, so that a test without a result does not exist."""
    option = config.option
    choosing = ("keyword", "markexpr", "deselect", "lf", "stepwise")
    chosen = any(getattr(option, name, None) for name in choosing)
    paths = config.args_source == config.ArgsSource.ARGS
    return not chosen and not paths and not option.maxfail


def only_asks(config: pytest.Config) -> bool:
    """Whether the session only lists fixtures."""
    return bool(config.option.showfixtures or config.option.show_fixtures_per_test)


def report_folder(config: pytest.Config, start: str) -> Path | None:
    """The folder of ``--membudget-report`` of a session that was started in ``start``; None without."""
    written = config.getoption("membudget_report")
    return Path(start, written) if written is not None else None


def requested_files(config: pytest.Config) -> list[str] | None:
    """The files and folders on the command line; None where it names none."""
    if config.args_source != config.ArgsSource.ARGS:
        return None
    start = str(config.invocation_params.dir)
    paths = [os.path.join(start, arg.partition("::")[0]) for arg in config.args]
    return list(dict.fromkeys(os.path.abspath(path) for path in paths))


def lists_removed(config: pytest.Config) -> bool:
    """Whether a test of the base that this session has not collected has been removed.

    False if only single tests were requested, or those that failed last.
    """
    names_single_tests = any("::" in arg for arg in config.args)
    return not names_single_tests and not getattr(config.option, "lf", False)
