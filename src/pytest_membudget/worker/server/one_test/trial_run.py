"""Runs a test with one change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..changes.table import APPLY


def run_with_change(name: str, item: pytest.Item, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Apply the change ``name`` and return the answer of ``run``.

    ``changed`` in the answer names what was changed. It is empty if the change was not applicable, and if the
    test failed with it. Changes are not undone: the process must end with the run.
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
