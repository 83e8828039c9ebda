"""A test's figures as names and plain values, as JUnit files have properties."""

from __future__ import annotations

from collections.abc import Iterator

from ..results.test_result import TestResult

#: The prefix of all names: tests record properties too.
PREFIX = "membudget."


def figures(row: TestResult) -> Iterator[tuple[str, int | str]]:
    """The budget, and of the ranks that take most the peaks and components; bytes but for the metric."""
    if row.limit_bytes is not None:
        yield f"{PREFIX}budget_bytes", row.limit_bytes
    for word, figure in (("estimated", row.worst_estimate), ("measured", row.worst_measurement)):
        if figure is None or not figure.peak_bytes:
            continue
        yield f"{PREFIX}{word}_metric", figure.metric
        yield f"{PREFIX}{word}_bytes", figure.peak_bytes
        for name, size in figure.components.items():
            if size:
                yield f"{PREFIX}{word}_{name}_bytes", size
