"""A test's figures as names and plain values, as JUnit files have properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .rows import peak_bytes, worst_estimate, worst_measurement

#: All names begin so: they stand beside those that tests record themselves.
PREFIX = "membudget."


def figures(row: Mapping[str, Any]) -> Iterator[tuple[str, int | str]]:
    """The budget, and of the ranks that take most the peaks and components; bytes but for the metric."""
    if row["limit_bytes"] is not None:
        yield f"{PREFIX}budget_bytes", row["limit_bytes"]
    for word, figure in (("estimated", worst_estimate(row)), ("measured", worst_measurement(row))):
        if figure is None or not peak_bytes(figure):
            continue
        yield f"{PREFIX}{word}_metric", figure["metric"]
        yield f"{PREFIX}{word}_bytes", peak_bytes(figure)
        for name, size in figure["components"].items():
            if size:
                yield f"{PREFIX}{word}_{name}_bytes", size
