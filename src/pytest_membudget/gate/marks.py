"""Reads the marks of a test: its budget, and whether pytest will skip it."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest
from _pytest.skipping import Skip, Xfail, evaluate_skip_marks, evaluate_xfail_marks

from ..budgets.marked_test import MarkedTest
from ..budgets.marker import read_budget
from ..budgets.node_ids import key_of, nodeid_of
from ..budgets.settings import Settings
from ..errors import MembudgetError
from ..names import MARKER
from ..scenarios.items import EntryItem
from .selection import is_selected

#: What to do about a skip mark that requires a GPU.
_REMEDY = (
    "if the mark requires a GPU, remove it, or set lift_cuda_skips: without one, a test with a budget runs "
    "on a virtual one, in a process where torch.cuda.is_available() is True"
)
_MARKED = pytest.StashKey[MarkedTest]()
_Found = TypeVar("_Found", Skip, Xfail)


def is_marked(item: pytest.Item) -> bool:
    """Whether ``item`` has a budget."""
    return item.get_closest_marker(MARKER) is not None


def marked_test(item: pytest.Item, settings: Settings) -> MarkedTest:
    """The ``MarkedTest`` of ``item``, read at the first call. Entries of YAML files make it themselves."""
    known = item.stash.get(_MARKED, None)
    if known is None:
        known = item.stash[_MARKED] = _read(item, settings)
    return known


def _read(item: pytest.Item, settings: Settings) -> MarkedTest:
    if isinstance(item, EntryItem):
        return item.marked_test(settings.marker_defaults())
    file, line, _ = item.location
    file, line = file.replace(os.sep, "/"), (line or 0) + 1
    budget, mistake = None, ""
    marks = [(mark.args, mark.kwargs) for mark in item.iter_markers(MARKER)]
    try:
        budget = read_budget(marks, settings.marker_defaults())
    except Exception as error:  # it must not end the session
        mistake = mistake_text(file, line, error)
    return MarkedTest(
        *(nodeid_of(item), key_of(item), str(item.path), file, line, budget, mistake),
        is_selected=is_selected(item),
        names_gpus=any("gpus" in kwargs for _, kwargs in marks),
        fixtures=frozenset(getattr(item, "fixturenames", ())),
    )


def mistake_text(file: str, line: int, error: Exception) -> str:
    """The message for a mark at ``file:line`` whose values raise ``error`` when they are used."""
    if isinstance(error, MembudgetError):
        return f"{file}:{line}: {error}"
    return (  # a value that cannot be compared (an array)
        f"{file}:{line}: the budget could not be checked ({type(error).__name__}: {error}); "
        "write plain numbers and texts in the mark, as in mem_budget(gib=40)"
    )


def skip_reason(item: pytest.Item, *, is_lifted: bool = False) -> str | None:
    """Why a mark skips ``item``; None if none does.

    ``is_lifted``: skip marks are evaluated by the worker, where CUDA is available.
    """
    skipped = None if is_lifted else _evaluated(evaluate_skip_marks, item)
    if skipped is not None:
        return skipped.reason
    expected = _expected(item)
    return f"[NOTRUN] {expected.reason}" if expected is not None and not expected.run else None


def unchecked_text(item: pytest.Item, reason: str) -> str:
    """Why ``item``'s budget was not checked, and what to do about it."""
    text = f"skipped in this process ({reason}), so its budget was not checked"
    return text if item.get_closest_marker("skip") is not None else f"{text}; {_REMEDY}"


def expects_failure(item: pytest.Item, error: type[BaseException]) -> bool:
    """Whether an xfail mark expects ``error``."""
    expected = _expected(item)
    raises = expected.raises if expected is not None else ()
    kinds = raises if isinstance(raises, tuple) else (raises,)
    return raises is None or any(isinstance(kind, type) and issubclass(error, kind) for kind in kinds)


def _expected(item: pytest.Item) -> Xfail | None:
    return None if item.config.getoption("runxfail", False) else _evaluated(evaluate_xfail_marks, item)


def _evaluated(evaluate: Callable[[pytest.Item], _Found | None], item: pytest.Item) -> _Found | None:
    """What pytest makes of marks of ``item`` when it sets the test up, which reports a mistake in one."""
    try:
        return evaluate(item)
    except (Exception, pytest.fail.Exception):
        return None
