"""Footnotes on tests within their budgets, for every format: the asterisk, and figures under 1%."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..results.test_result import TestResult

SMALL: Final = "is it what you train?"


def legend(results: Iterable[TestResult]) -> Iterator[str]:
    """The line below a table that explains its asterisks; empty if there are none."""
    marked = [result for result in results if result.mark]
    if not marked:
        return
    unchecked = sum(bool(result.unchecked_caveats) for result in marked)
    failing = f"--membudget-strict fails {unchecked or 'none'} of these {len(marked)}"
    yield f"* data assumed or memory not modelled; {failing}"


def small_line(results: Iterable[TestResult]) -> Iterator[str]:
    """The line on tests that take under 1% of their budgets; empty if there are none."""
    small = [result.nodeid for result in results if result.is_small]
    if small:
        more = f" and {len(small) - 1} more" if len(small) > 1 else ""
        yield f"under 1% of the budget, {SMALL}: {small[0]}{more}"
