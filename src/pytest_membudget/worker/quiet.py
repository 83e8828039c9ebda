"""What the user's command line asked of the session itself, and the worker must not do a second time."""

from __future__ import annotations

from typing import Any

#: Options that write files, start processes, choose tests or wait for a person: off in the worker.
_OFF: dict[str, Any] = {
    "collectonly": False,
    "deselect": None,
    "failedfirst": False,
    "keyword": "",
    "last_failed_no_failures": "all",
    "lf": False,
    "markexpr": "",
    "newfirst": False,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "stepwise": False,
    "trace": False,
    "usepdb": False,
    "maxfail": 0,
    # pytest's and other plugins' reports
    "xmlpath": None,
    "pastebin": None,
    "report_log": None,
    "htmlpath": None,
    "json_report": False,
    "memray": False,
    # pytest-xdist
    "dist": "no",
    "numprocesses": None,
    "tx": [],
    "looponfail": False,
    # pytest-rerunfailures: a trace repeats itself exactly
    "reruns": 0,
    # pytest-cov
    "cov_source": [],
    "no_cov": True,
}


def silence(option: Any) -> None:
    """Turn off, in pytest's parsed options, what the worker must not do."""
    for name, value in _OFF.items():
        if hasattr(option, name):
            setattr(option, name, value)
