"""A report for GitLab: metrics that a merge request compares, and findings of code quality."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .document import Document
from .escaping import metric_label
from .status import FAILURE, WARNING, ReportedTest, explained, place_in, reported_tests, to_do

_SEVERITIES = {FAILURE: "major", WARNING: "minor"}


def metrics(document: Document) -> str:
    """OpenMetrics text: peak, budget and components of each test, bytes, in the order of the report."""
    peaks, limits, parts = [], [], []
    for row in document.tests:
        one = ReportedTest(row, "", "")
        test = f'test="{metric_label(row.nodeid)}"'
        if one.figure is not None:
            of_metric = f'{test},metric="{one.figure.metric}",kind="{one.figure.kind}"'
            peaks.append(f"membudget_peak_bytes{{{of_metric}}} {one.figure.peak_bytes}")
            parts += [
                f'membudget_component_bytes{{{test},component="{name}"}} {size}'
                for name, size in one.figure.components.items()
                if size
            ]
        if row.limit_bytes is not None:
            limits.append(f"membudget_budget_bytes{{{test}}} {row.limit_bytes}")
    lines = [
        *_family("peak", "what the test takes", peaks),
        *_family("budget", "what it may take", limits),
        *_family("component", "what of the peak is what", parts),
    ]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _family(name: str, about: str, samples: list[str]) -> list[str]:
    if not samples:
        return []
    full = f"membudget_{name}_bytes"
    return [f"# TYPE {full} gauge", f"# UNIT {full} bytes", f"# HELP {full} GPU memory: {about}", *samples]


def code_quality(document: Document) -> str:
    """GitLab's JSON of code quality: one entry for each test that fails or is over since before.

    The fingerprint is of the file, the test and the rule: it stays when lines move and figures change.
    """
    return (
        json.dumps([_entry(one) for one in reported_tests(document) if one.level in _SEVERITIES], indent=1)
        + "\n"
    )


def _entry(one: ReportedTest) -> dict[str, Any]:
    row = one.result
    rule = f"membudget-{one.status or row.verdict}"
    path, line = place_in(f"{row.file}:{row.line}") or (row.file.lstrip("/"), 1)
    text = " ".join(part for part in (explained(one, str), to_do(one, str)) if part)
    return {
        "description": f"{row.nodeid}: {text}",
        "check_name": rule,
        "fingerprint": hashlib.sha256("\0".join((path, row.nodeid, rule)).encode()).hexdigest(),
        "severity": _SEVERITIES[one.level],
        "location": {"path": path.removeprefix("./"), "lines": {"begin": max(1, line)}},
    }
