"""A test's run with one change: what it takes then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .changes.table import APPLY


def run_with_change(name: str, item: pytest.Item, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of ``run`` after the change ``name``; ``changed`` is what it has found to change.

    That is empty where it has found nothing, and where the test does not get through with the change: such
    a run is no advice. The change stays in this process, which must end with the run.
    """
    changed: dict[str, None] = {}
    APPLY[name](item, lambda what: changed.update({what: None}))
    answer = run()
    report = {**answer["report"], "holders": [], "timeline": None}
    is_complete = answer["outcome"] == "traced"
    return {
        "outcome": "traced",
        "report": report,
        "changed": " and ".join(changed) if is_complete else "",
    }
