"""A report for services that follow figures over time: github-action-benchmark and Bencher."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from .document import Document
from .status import ReportedTest

#: The longest name of a benchmark and of a measure (bencher.dev/docs/reference/bencher-metric-format).
_LONGEST_NAME = 1024


def smaller_is_better(document: Document) -> str:
    """github-action-benchmark's ``customSmallerIsBetter``: the peak of each test, bytes."""
    entries = [
        {"name": name, "unit": "bytes", "value": one.figure.peak_bytes, "extra": _extra(one, one.figure)}
        for name, one in _with_figures(document)
        if one.figure is not None
    ]
    return json.dumps(entries, indent=1) + "\n"


def bencher(document: Document) -> str:
    """Bencher Metric Format: the peak of each test, its budget and its components, bytes, as measures."""
    benchmarks: dict[str, dict[str, Any]] = {}
    for name, one in _with_figures(document):
        if one.figure is None:
            continue
        measures = {f"peak-{one.figure.metric}-bytes": {"value": one.figure.peak_bytes}}
        if one.result.limit_bytes is not None:
            measures["budget-bytes"] = {"value": one.result.limit_bytes}
        for component, size in one.figure.components.items():
            if size:
                measures[f"{component.replace('_', '-')}-bytes"] = {"value": size}
        benchmarks[name] = measures
    return json.dumps(benchmarks, indent=1) + "\n"


def _with_figures(document: Document) -> Iterator[tuple[str, ReportedTest]]:
    for row in document.tests:
        one = ReportedTest(row, "", "")
        if one.figure is not None:
            yield _name(row.nodeid), one


def _name(nodeid: str) -> str:
    """``nodeid``; a longer one than services take ends in a digest."""
    if len(nodeid) <= _LONGEST_NAME:
        return nodeid
    digest = hashlib.sha256(nodeid.encode()).hexdigest()[:16]
    return f"{nodeid[: _LONGEST_NAME - 17]}-{digest}"


def _extra(one: ReportedTest, figure: Any) -> str:
    limit = one.result.limit_bytes
    budget = f"budget: {limit} bytes" if limit is not None else "no budget of the whole"
    return f"{figure.kind} {figure.metric}; {budget}"
