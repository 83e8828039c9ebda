"""A row of report.json: one test, its budget, its verdict and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..budgets.recorded_properties import Property
from .statuses import EXPIRED, GROWN, STILL_OVER, WAIVED

Row = dict[str, Any]

#: What has become of a test since its base, as far as that decides whether it fails: these make a test within
#: its budget fail, and those let one over it pass.
_FAILING = (GROWN, EXPIRED)
_EXCUSED = (STILL_OVER, WAIVED)


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
    rank: int | None = None,
    host_bytes: int | None = None,
    cached: bool = False,
) -> Row:
    """One test as report.json has it; plain JSON types only.

    ``raised``: there is no figure because the test's own code raised. ``snapshot``: the path of its
    snapshot from the report's folder. ``rank``: of several the one that the verdict is about.
    ``host_bytes``: what the ranks of one machine hold in host memory, where they hold most. ``cached``: the
    estimate is an earlier session's. Whether a
    failure is ``expected`` (xfail) is known when the test has run.
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
        "rank": rank,
        "host_bytes": host_bytes,
        "cached": cached,
        "estimates": [dict(estimate) for estimate in estimates],
        "measurements": [],
        "not_measured": "",
        "properties": [list(pair) for pair in properties],
        "snapshot": snapshot,
        "snapshot_error": snapshot_error,
        "expected": False,
    }


def add_measurement(
    row: Row,
    verdict: str,
    reason: str,
    details: str,
    measurements: Sequence[Mapping[str, Any]],
    rank: int | None = None,
) -> None:
    """Give ``row`` what was measured; a verdict on that other than ``within`` is the row's."""
    row["measurements"] = [dict(measurement) for measurement in measurements]
    if verdict != row["verdict"]:
        row.update(verdict=verdict, reason=f"measured on CUDA: {reason}", details=details, rank=rank)


def status_of(row: Mapping[str, Any]) -> str | None:
    """What has become of ``row``'s test since the base, in a word; None where it was compared with none."""
    comparison = row.get("comparison")
    return str(comparison["status"]) if comparison is not None else None


def exceeds(row: Mapping[str, Any]) -> bool:
    """Whether ``row``'s test takes more than it may: of its budget, or than at its base."""
    status = status_of(row)
    if row["verdict"] == "over":
        return status not in _EXCUSED
    return row["verdict"] == "within" and status in _FAILING


def reason_of(row: Mapping[str, Any]) -> str:
    """Why ``row``'s test ends as it does, in a line."""
    comparison = row.get("comparison")
    if comparison is None or status_of(row) not in _FAILING:
        return str(row["reason"])
    text = "grown" if status_of(row) == GROWN else "waiver expired"
    return f"{text}: {comparison['reason']}"


def own_estimates(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The estimates of the test itself: not those of a scenario that stands beside it."""
    estimates = row["estimates"]
    return [estimate for estimate in estimates if estimate["kind"] == estimates[0]["kind"]]


def beside(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The analytic figure of the scenario that ``row``'s test names, of the rank that it is compared for.

    It is of the same rank as the test's own estimate, if the scenario has that: else of the one that takes
    most.
    """
    own, estimate = own_estimates(row), estimate_of_verdict(row)
    others = [report for report in row["estimates"] if report not in own]
    same = [report for report in others if estimate is not None and report["rank"] == estimate["rank"]]
    return same[0] if same else max(others, key=peak_bytes, default=None)


def gpus_of(row: Mapping[str, Any]) -> int:
    """The ranks that ``row``'s test runs as."""
    return int(row["budget"]["gpus"]) if row["budget"] is not None else 1


def compared(row: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """The measurement of the rank that takes most, after the estimate that stands beside it.

    This is of the same rank, if that was estimated: else that of the rank that takes most. None where one
    of the two is missing.
    """
    worst, measurement = worst_estimate(row), worst_measurement(row)
    if worst is None or measurement is None:
        return None
    same = [estimate for estimate in own_estimates(row) if estimate["rank"] == measurement["rank"]]
    return (same[0] if same else worst), measurement


def ratio_of(row: Mapping[str, Any]) -> float | None:
    """Estimate over measurement of the two that are ``compared``; None where one is missing."""
    both = compared(row)
    if both is None or not peak_bytes(both[1]):
        return None
    return peak_bytes(both[0]) / peak_bytes(both[1])


def estimate_of_verdict(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The estimate of the rank that the verdict is about, if it has one: else of the rank that takes most."""
    told = [estimate for estimate in own_estimates(row) if estimate["rank"] == row["rank"]]
    return told[0] if told else worst_estimate(row)


def peak_bytes(estimate: Mapping[str, Any]) -> int:
    """The peak of the metric that an estimate was made for."""
    size: int = estimate["peak"][f"{estimate['metric']}_bytes"]
    return size


def worst_measurement(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The measurement of the rank that takes most."""
    return max(row["measurements"], key=peak_bytes, default=None)


def worst_estimate(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The estimate of the rank that takes most."""
    return max(own_estimates(row), key=peak_bytes, default=None)
