"""A row of report.json: one test, its budget, its verdict and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
) -> Row:
    """One test as report.json has it; plain JSON types only.

    ``raised``: there is no figure because the test's own code raised.
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
    }


def peak_bytes(estimate: Mapping[str, Any]) -> int:
    """The peak of the metric that an estimate was made for."""
    size: int = estimate["peak"][f"{estimate['metric']}_bytes"]
    return size


def worst_estimate(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The estimate of the rank that takes most."""
    return max(row["estimates"], key=peak_bytes, default=None)
