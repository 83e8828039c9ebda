"""What pytest's command line selects."""

from __future__ import annotations

import os

import pytest


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
