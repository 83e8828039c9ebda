"""A report as metrics over time, for GitLab, github-action-benchmark and Bencher."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from ...memory_report import MemoryReport
from ...results.test_result import TestResult
from ..document import Document
from .escaping import metric_label

#: The longest name of a benchmark and of a measure (bencher.dev/docs/reference/bencher-metric-format).
_LONGEST_NAME = 1024
#: The metrics of OpenMetrics, and what they are.
_FAMILIES = {
    "membudget_peak_bytes": "what the test takes",
    "membudget_budget_bytes": "what it may take",
    "membudget_component_bytes": "what of the peak is what",
}


def smaller_is_better(document: Document) -> str:
    """github-action-benchmark's ``customSmallerIsBetter``: the peak of each test, bytes."""
    entries = []
    for row, figure in _figures(document):
        limit = row.limit_bytes
        budget = f"budget: {limit} bytes" if limit is not None else "no budget of the whole"
        extra = f"{figure.kind} {figure.metric}; {budget}"
        known = {"name": _name(row.nodeid), "unit": "bytes", "value": figure.peak_bytes, "extra": extra}
        entries.append(known)
    return json.dumps(entries, indent=1) + "\n"


def bencher(document: Document) -> str:
    """Bencher Metric Format: the peak of each test, its budget and its components, bytes, as measures."""
    benchmarks: dict[str, dict[str, Any]] = {}
    for row, figure in _figures(document):
        measures = {f"peak-{figure.metric}-bytes": {"value": figure.peak_bytes}}
        if row.limit_bytes is not None:
            measures["budget-bytes"] = {"value": row.limit_bytes}
        for component, size in figure.components.items():
            if size:
                measures[f"{component.replace('_', '-')}-bytes"] = {"value": size}
        benchmarks[_name(row.nodeid)] = measures
    return json.dumps(benchmarks, indent=1) + "\n"


def open_metrics(document: Document) -> str:
    """OpenMetrics text: peak, budget and components of each test, bytes, in the order of the report."""
    samples: dict[str, list[str]] = {name: [] for name in _FAMILIES}
    for row in document.tests:
        test = f'test="{metric_label(row.nodeid)}"'
        if row.figure is not None:
            labels = f'{test},metric="{row.figure.metric}",kind="{row.figure.kind}"'
            samples["membudget_peak_bytes"].append(f"{{{labels}}} {row.figure.peak_bytes}")
            samples["membudget_component_bytes"] += [
                f'{{{test},component="{name}"}} {size}'
                for name, size in row.figure.components.items()
                if size
            ]
        if row.limit_bytes is not None:
            samples["membudget_budget_bytes"].append(f"{{{test}}} {row.limit_bytes}")
    lines: list[str] = []
    for name, about in _FAMILIES.items():
        if samples[name]:
            lines += [f"# TYPE {name} gauge", f"# UNIT {name} bytes", f"# HELP {name} GPU memory: {about}"]
            lines += [f"{name}{sample}" for sample in samples[name]]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _figures(document: Document) -> Iterator[tuple[TestResult, MemoryReport]]:
    for row in document.tests:
        if row.figure is not None:
            yield row, row.figure


def _name(nodeid: str) -> str:
    """``nodeid``; one that is too long for services is cut and ends in a digest."""
    if len(nodeid) <= _LONGEST_NAME:
        return nodeid
    digest = hashlib.sha256(nodeid.encode()).hexdigest()[:16]
    return f"{nodeid[: _LONGEST_NAME - 17]}-{digest}"
