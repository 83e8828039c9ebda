"""A row of report.json: one test, its budget, its verdict and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..properties import Property

Row = dict[str, Any]


def make_row(
    *,
    nodeid: str,
    file: str,
    line: int,
    budget: Mapping[str, Any] | None,
    limit_bytes: int | None,
    verdict: str,
    reason: str,
    details: str = "",
    raised: bool = False,
    estimates: Sequence[Mapping[str, Any]] = (),
    properties: Sequence[Property] = (),
    snapshot: str | None = None,
    snapshot_error: str = "",
) -> Row:
    """One test as report.json has it; plain JSON types only.

    ``raised``: there is no figure because the test's own code raised. ``snapshot``: the path of its
    snapshot from the report's folder.
    """
    return {
        "nodeid": nodeid,
        "file": file,
        "line": line,
        "budget": dict(budget) if budget is not None else None,
        "limit_bytes": limit_bytes,
        "verdict": verdict,
        "reason": reason,
        "details": details,
        "raised": raised,
        "estimates": [dict(estimate) for estimate in estimates],
        "measurements": [],
        "not_measured": "",
        "properties": [list(pair) for pair in properties],
        "snapshot": snapshot,
        "snapshot_error": snapshot_error,
    }


def add_measurement(
    row: Row, verdict: str, reason: str, details: str, measurements: Sequence[Mapping[str, Any]]
) -> None:
    """Give ``row`` what was measured; a verdict on that other than ``within`` is the row's."""
    row["measurements"] = [dict(measurement) for measurement in measurements]
    if verdict != row["verdict"]:
        row.update(verdict=verdict, reason=f"measured on CUDA: {reason}", details=details)


def ratio_of(row: Mapping[str, Any]) -> float | None:
    """Estimate over measurement of the ranks that take most; None where one is missing."""
    estimate, measurement = worst_estimate(row), worst_measurement(row)
    if estimate is None or measurement is None or not peak_bytes(measurement):
        return None
    return peak_bytes(estimate) / peak_bytes(measurement)


def peak_bytes(estimate: Mapping[str, Any]) -> int:
    """The peak of the metric that an estimate was made for."""
    size: int = estimate["peak"][f"{estimate['metric']}_bytes"]
    return size


def worst_measurement(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The measurement of the rank that takes most."""
    return max(row["measurements"], key=peak_bytes, default=None)


def worst_estimate(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The estimate of the rank that takes most."""
    return max(row["estimates"], key=peak_bytes, default=None)
