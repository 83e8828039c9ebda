"""Turns off options of the user's session that its worker must not apply again."""

import gc
import io
import os
import sys
from contextlib import suppress
from typing import Any

import pytest

from ...names import OFF_IN_WORKERS

#: When Python collects garbage.
_THRESHOLDS = gc.get_threshold()


def keep_garbage() -> None:
    """Let Python look for no garbage while a worker imports: what is imported stays."""
    gc.set_threshold(0)


def leave_out_of_garbage() -> None:
    """Let Python look for garbage in what is made from here on: in torch's 500,000 that takes 0.3 s."""
    gc.freeze()


def collect_garbage() -> None:
    """Undo ``keep_garbage``, unless an import has set what it wants."""
    if not gc.get_threshold()[0]:
        gc.set_threshold(*_THRESHOLDS)
        gc.collect()


def disable_side_effects(option: Any, scratch: str) -> None:
    """Turn off, in pytest's parsed options, what the worker must not do.

    Temporary folders are made under ``scratch``, so that the session's are not removed.
    """
    for name, value in {**OFF_IN_WORKERS, "basetemp": os.path.join(scratch, "tmp")}.items():
        if hasattr(option, name):
            setattr(option, name, value)


def leave_out_reseeding(config: pytest.Config) -> None:
    """Take out pytest-randomly, unless it was given a seed: else each session has another, and draws too."""
    if getattr(config.option, "randomly_seed", None) == "default":
        config.pluginmanager.unregister(name="randomly")


def mute_terminal(config: pytest.Config) -> None:
    """Stop pytest's own output from here on, so that all output is a test's."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    with suppress(AttributeError):  # no terminal reporter, or another one
        reporter._tw._file = io.StringIO()  # it has no file descriptor, which a test may close


def flush_each_line() -> None:
    """Flush every line, and escape what cannot be encoded: a test may end its process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
