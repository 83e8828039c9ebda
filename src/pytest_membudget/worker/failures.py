"""Why a test could not be traced, in words that say what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

#: Lines of a traceback that are told.
_LINES = 60


def explain(
    item: pytest.Item, when: str, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport
) -> dict[str, Any]:
    """The answer for a phase that raised: out of memory, or an error with its place and the remedy."""
    error = excinfo.value
    where = _place(item, excinfo)
    if isinstance(error, torch.OutOfMemoryError):
        return {"outcome": "out_of_memory", "reason": str(error), "where": where}
    what = f"{type(error).__name__} in {when} at {where} on the virtual device: {_first_line(error)}"
    remedy = _remedy(error)
    text = "\n".join(str(report.longrepr).splitlines()[-_LINES:])
    return {"outcome": "error", "reason": f"{what}{remedy}", "details": text}


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


def _relative(item: pytest.Item, path: str) -> str:
    root = str(item.config.rootpath)
    return path[len(root) + 1 :] if path.startswith(root) else path
