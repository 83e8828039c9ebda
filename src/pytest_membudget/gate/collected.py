"""The tests with budgets that a session collects, in this process or in workers of pytest-xdist."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from ..budgets.node_ids import nodeid_of
from .marks import is_marked
from .selection import Selection
from .xdist import End


class Collected:
    """The collected tests, and what could not be collected."""

    def __init__(self, selection: Selection) -> None:
        """``selection``: its patterns that match no test are reported."""
        self._selection = selection
        #: node ids of all tests with budgets, deselected ones included
        self.nodeids: dict[str, None] = {}
        #: all tests, deselected ones included
        self.items: list[pytest.Item] = []
        #: files whose marks may be applied conditionally
        self.may_hide: list[str] = []
        #: files could not be collected, so that there may be tests which this session does not know
        self.is_incomplete = False
        #: tests with budgets that are collected only where CUDA is available
        self._only_with_cuda: dict[str, None] = {}
        self._unmatched: list[str] | None = None
        self._silent_workers = 0

    def add(self, item: pytest.Item) -> None:
        """Record a test before deselection."""
        self.items.append(item)
        if is_marked(item):
            self.nodeids[nodeid_of(item)] = None

    def add_worker(self, end: End | None) -> None:
        """Record what a worker of pytest-xdist has reported at its end; None if it has crashed."""
        if end is None:
            self._silent_workers += 1
            return
        self.nodeids.update(dict.fromkeys(end.collected))
        self._unmatched = end.unmatched  # once for all workers, which collect the same tests

    def only_with_cuda(self, nodeids: Iterable[str]) -> None:
        """Record tests with budgets that are collected only where CUDA is available."""
        self._only_with_cuda.update(dict.fromkeys(nodeids))

    @property
    def unmatched(self) -> list[str]:
        """Patterns of ``[tool.membudget] tests`` that match no test."""
        return self._selection.unmatched if self._unmatched is None else self._unmatched

    def unchecked(self, *, is_whole: bool) -> list[str]:
        """Messages on budgets that were not checked. ``is_whole``: the session collects all tests."""
        texts = [
            f"{nodeid}: its budget was not checked: the test exists only where torch.cuda.is_available(); "
            "define it on every machine: estimates need no GPU"
            for nodeid in self._only_with_cuda
        ]
        if is_whole:
            texts += [
                f"[tool.membudget] tests: {pattern!r} matches no test; write the path of a file or folder "
                "from pyproject.toml, or a node id, as in tests = ['tests/train/*']"
                for pattern in self.unmatched
            ]
        if self._silent_workers and self._unmatched is None:
            texts.append("an xdist worker ended without reporting its budgets")
        return texts


def is_whole(config: pytest.Config) -> bool:
    """Whether the session runs all tests, so that a test without a result does not exist."""
    option = config.option
    chosen = any(
        getattr(option, name, None) for name in ("keyword", "markexpr", "deselect", "lf", "stepwise")
    )
    paths = config.args_source == config.ArgsSource.ARGS
    return not chosen and not paths and not option.maxfail


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
