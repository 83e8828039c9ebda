"""What the head's session runs, for the run of its base."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ..places import import_roots


def is_whole(config: pytest.Config) -> bool:
    """Whether the session runs all tests: one without a result does not exist then."""
    option = config.option
    chosen = any(
        getattr(option, name, None) for name in ("keyword", "markexpr", "deselect", "lf", "stepwise")
    )
    paths = config.args_source == config.ArgsSource.ARGS
    return not chosen and not paths and not option.maxfail


def head_of(selected: Iterable[str], collected: Iterable[str], top: Path) -> dict[str, Any]:
    """The tests with budgets that run, all that were collected, and where their code came from."""
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

    Not where only single tests were requested, or those that failed last.
    """
    names_single_tests = any("::" in arg for arg in config.args)
    return not names_single_tests and not getattr(config.option, "lf", False)
