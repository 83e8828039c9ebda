"""The figures of a test as properties of its case in pytest's JUnit file."""

from collections.abc import Iterator

from ...results.test_result import TestResult

#: The prefix of all names of properties; tests record properties of the same files.
PREFIX = "membudget."


def figures(result: TestResult) -> Iterator[tuple[str, int | str]]:
    """The budget, and peaks and components of the rank that takes most; in bytes, except the metric."""
    if result.limit_bytes is not None:
        yield f"{PREFIX}budget_bytes", result.limit_bytes
    for word, figure in (("estimated", result.worst_estimate), ("measured", result.worst_measurement)):
        if figure is None or not figure.peak_bytes:
            continue
        yield f"{PREFIX}{word}_metric", figure.metric
        yield f"{PREFIX}{word}_bytes", figure.peak_bytes
        for name, size in figure.components.items():
            if size:
                yield f"{PREFIX}{word}_{name}_bytes", size
