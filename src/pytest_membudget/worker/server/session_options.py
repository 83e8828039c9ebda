"""Options of the user's session that its worker must not act on a second time."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any

import pytest

#: Options that write files, start processes, choose tests or wait for a person: off in the worker.
_OFF: dict[str, Any] = {
    "cacheclear": False,
    # what a test prints is kept by its process: pytest would read all of it, a gigabyte as well
    "capture": "no",
    "collectonly": False,
    "debug": None,
    "deselect": None,
    "failedfirst": False,
    "keyword": "",
    "last_failed_no_failures": "all",
    "lf": False,
    "log_file": os.devnull,
    "markexpr": "",
    "maxfail": 0,
    "newfirst": False,
    "pastebin": None,
    "pyargs": False,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "stepwise": False,
    "stepwise_skip": False,
    "trace": False,
    "usepdb": False,
    "xmlpath": None,
    # other plugins' reports
    "allure_report_dir": None,
    "clean_alluredir": False,
    "htmlpath": None,
    "json_report": False,
    "memray": False,
    "report_log": None,
    # pytest-xdist and pytest-forked
    "dist": "no",
    "distload": False,
    "forked": False,
    "looponfail": False,
    "numprocesses": None,
    "tx": [],
    # pytest-rerunfailures: a trace repeats itself exactly
    "reruns": 0,
    # pytest-cov
    "cov_source": [],
    "no_cov": True,
}


def disable_side_effects(option: Any, scratch: str) -> None:
    """Turn off, in pytest's parsed options, what the worker must not do.

    Temporary folders are made under ``scratch``, not in place of the session's own.
    """
    for name, value in {**_OFF, "basetemp": os.path.join(scratch, "tmp")}.items():
        if hasattr(option, name):
            setattr(option, name, value)


def mute_terminal(config: pytest.Config) -> None:
    """Let pytest itself write nothing from here on: what is printed then is a test's own."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    with suppress(AttributeError):  # there is none, or it writes in another way
        reporter._tw._file = _NullOutput()


class _NullOutput(io.TextIOBase):
    """Takes all that is written, and needs no descriptor, which a test may close."""

    def write(self, text: str) -> int:
        """Discard ``text``."""
        return len(text)


def flush_each_line() -> None:
    """Let every line be written when it is printed, whatever is in it: a test may end its process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
