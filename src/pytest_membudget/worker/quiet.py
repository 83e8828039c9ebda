"""What the user's command line asked of the session itself, and the worker must not do a second time."""

from __future__ import annotations

import os
from typing import Any

#: Options that write files, start processes, choose tests or wait for a person: off in the worker.
_OFF: dict[str, Any] = {
    "cacheclear": False,
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


def silence(option: Any, scratch: str) -> None:
    """Turn off, in pytest's parsed options, what the worker must not do.

    Temporary folders are made under ``scratch``, not in place of the session's own.
    """
    for name, value in {**_OFF, "basetemp": os.path.join(scratch, "tmp")}.items():
        if hasattr(option, name):
            setattr(option, name, value)
