"""Evaluates pytest's skip and xfail marks of a test that does not run here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

#: What to do about a skip mark that requires a GPU.
_REMEDY = (
    "if the mark requires a GPU, remove it, or set lift_cuda_skips: without one, a test with a budget runs "
    "on a virtual one, in a process where torch.cuda.is_available() is True"
)


def skip_reason(item: pytest.Item, *, is_lifted: bool = False) -> str | None:
    """Why a mark is certain to skip ``item``; None if none does, or only pytest can evaluate it.

    ``is_lifted``: skip marks are evaluated by the worker, where CUDA is available.
    """
    for mark in () if is_lifted else item.iter_markers("skip"):
        return str(mark.kwargs.get("reason") or (mark.args[0] if mark.args else "unconditional skip"))
    for mark in () if is_lifted else item.iter_markers("skipif"):
        if any(_holds(condition) for condition in _conditions(mark)):
            return str(mark.kwargs.get("reason") or "skipif")
    for mark in _xfail_marks(item):
        if not mark.kwargs.get("run", True):
            return "[NOTRUN] " + str(mark.kwargs.get("reason") or "xfail(run=False)")
    return None


def unchecked_text(item: pytest.Item, reason: str) -> str:
    """Why ``item``'s budget was not checked, and what to do about it."""
    text = f"skipped in this process ({reason}), so its budget was not checked"
    return text if item.get_closest_marker("skip") is not None else f"{text}; {_REMEDY}"


def expects_failure(item: pytest.Item, error: type[BaseException]) -> bool:
    """Whether an xfail mark expects ``error``; a mark that only pytest can evaluate does not count."""
    for mark in _xfail_marks(item):
        raises = mark.kwargs.get("raises")
        kinds = raises if isinstance(raises, tuple) else (raises,)
        return raises is None or any(isinstance(kind, type) and issubclass(error, kind) for kind in kinds)
    return False


def _xfail_marks(item: pytest.Item) -> list[pytest.Mark]:
    """The xfail marks that are certain to apply."""
    if item.config.getoption("runxfail", False):
        return []
    marks = item.iter_markers("xfail")
    return [mark for mark in marks if not _conditions(mark) or any(map(_holds, _conditions(mark)))]


def _conditions(mark: pytest.Mark) -> Sequence[Any]:
    return (mark.kwargs["condition"],) if "condition" in mark.kwargs else mark.args


def _holds(condition: object) -> bool:
    """Whether ``condition`` is true; a text is an expression that pytest evaluates."""
    try:
        return not isinstance(condition, str) and bool(condition)
    except Exception:  # pytest reports it
        return False
