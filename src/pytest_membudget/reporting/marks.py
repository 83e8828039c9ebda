"""What an asterisk at a verdict means, for every report that has one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..results.test_result import TestResult


def legend(results: Iterable[TestResult]) -> Iterator[str]:
    """The line below a table whose verdicts have asterisks; none without one."""
    marked = [result for result in results if result.mark]
    if not marked:
        return
    unchecked = sum(bool(result.unchecked_caveats) for result in marked)
    fails = f"--membudget-strict fails {unchecked} of these {len(marked)}"
    yield (
        "* assumes something of the data, or leaves out memory that is not modelled (the caveats in "
        f"report.json); {fails if unchecked else 'none of it is without a bound'}"
    )
