"""Why a test could not be traced, in words that say what to write instead."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from ..errors import MembudgetError

#: What a trace cannot do; no fault of the test's, so no failure that an xfail mark may expect.
_OURS = (
    MembudgetError,
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
#: Calls of a traceback that are told, the innermost.
_CALLS = 12
#: Lines of an exception's text that are told: torch lists every kernel that there is.
_LINES = 12
#: Whose frames say nothing to the user of a test.
_HIDDEN = ("torch", "pytest_membudget", "_pytest", "pluggy", "threading")


def explain(
    item: pytest.Item, when: str, excinfo: pytest.ExceptionInfo[BaseException], device: str
) -> dict[str, Any]:
    """The answer for a phase that raised: skipped, out of memory, or an error with place and remedy.

    ``device``: what texts call the one that it ran on.
    """
    error = excinfo.value
    if isinstance(error, pytest.skip.Exception):
        return {"outcome": "skipped", "reason": str(error.msg)}
    if isinstance(error, pytest.xfail.Exception):
        return {"outcome": "skipped", "reason": f"xfail: {error.msg}"}
    where = _place(item, excinfo)
    if isinstance(error, torch.OutOfMemoryError):
        return {"outcome": "out_of_memory", "reason": str(error), "where": where}
    what = f"{type(error).__name__} in {when} at {where} on {device}: {_first_line(error)}"
    remedy = _remedy(error)
    details = _user_traceback(item, excinfo)
    raised = not isinstance(error, _OURS)
    return {"outcome": "error", "reason": f"{what}{remedy}", "details": details, "raised": raised}


def _remedy(error: BaseException) -> str:
    if isinstance(error, DynamicOutputShapeException):
        return (
            f"\nThe shape of what {error.args[0]} gives depends on data, and fake tensors have none. "
            "Give it a fixed shape where memory is budgeted: torch.where or a mask times the tensor, "
            "or the largest shape it may have."
        )
    if isinstance(error, DataDependentOutputException):
        return f"\nThe result of {error.args[0]} depends on data, and fake tensors have none."
    if isinstance(error, UnsupportedOperatorException):
        return (
            f"\nThere is no fake kernel for {error.args[0]}: register one with torch.library.register_fake, "
            "so that its output shapes are known without running it."
        )
    return ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _place(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The innermost line of the traceback in the test's own file, else the test's first line."""
    for entry in reversed(list(excinfo.traceback)):
        if str(entry.path) == str(item.path):
            return f"{_relative(item, str(entry.path))}:{entry.lineno + 1}"
    path, line, _ = item.location
    return f"{path}:{(line or 0) + 1}"


def _user_traceback(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The calls in the user's code and their libraries, not those inside torch, pytest and this package."""
    lines = []
    for entry in excinfo.traceback:
        package = entry.frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _HIDDEN:
            place = f"{_relative(item, str(entry.path))}:{entry.lineno + 1}"
            source = str(entry.statement).strip().splitlines()
            lines.append(f"  {place} in {entry.name}\n    {source[0] if source else ''}")
    text = "\n".join(lines[-_CALLS:])
    error_lines = f"{type(excinfo.value).__name__}: {excinfo.value}".splitlines()
    left_out = [f"(and {len(error_lines) - _LINES} lines more)"] if len(error_lines) > _LINES else []
    return "\n".join([text, *error_lines[:_LINES], *left_out])


def _relative(item: pytest.Item, path: str) -> str:
    return path.removeprefix(f"{item.config.rootpath}{os.sep}")
