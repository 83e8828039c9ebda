"""HeadRun: the tests that the head's session runs, which the base's run repeats."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ..places import import_roots


def is_whole(config: pytest.Config) -> bool:
    """Whether the session runs all tests, so that a test without a result does not exist."""
    option = config.option
    chosen = any(
        getattr(option, name, None) for name in ("keyword", "markexpr", "deselect", "lf", "stepwise")
    )
    paths = config.args_source == config.ArgsSource.ARGS
    return not chosen and not paths and not option.maxfail


def head_of(selected: Iterable[str], collected: Iterable[str], top: Path) -> dict[str, Any]:
    """The tests with budgets that run, all tests that were collected, and the folders of their code."""
    return {
        "selected": list(selected),
        "collected": list(collected),
        "roots": import_roots(sys.modules, str(top)),
    }


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
