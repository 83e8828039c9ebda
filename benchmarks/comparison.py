"""Estimates beside measured figures: the ratio of each, and what the ratios are together."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .published_figures import Published

#: A ratio nearer to 1 than this is neither under nor over: published figures have three or four digits.
EQUAL_WITHIN = 0.001
#: Beyond this a difference is a defect, and has to have a name.
EXPLAINED_BEYOND = 0.01
_PEAKS = ("allocated", "active", "reserved", "device")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure, estimated and measured."""

    case: str
    family: str
    metric: str
    estimate_bytes: float
    measured_bytes: float
    unit: str = "GiB"
    explained: str = ""
    source: str = ""
    setup: str = ""
    """Card and torch that it was measured on."""
    is_component: bool = False
    """Of a peak that has a row of its own: no figure of a summary's."""

    @property
    def ratio(self) -> float:
        """Estimate over measured."""
        return self.estimate_bytes / self.measured_bytes

    @property
    def is_unexplained(self) -> bool:
        """Whether it is off by so much that a cause has to be named, and none is."""
        return abs(self.ratio - 1) > EXPLAINED_BEYOND and not self.explained


@dataclass(frozen=True, slots=True)
class Summary:
    """Ratios of several comparisons, together."""

    count: int
    median: float
    worst: float
    under: float
    """Share of them that are under by more than ``EQUAL_WITHIN``."""
    equal: float
    over: float


def summarize(comparisons: Sequence[Comparison]) -> Summary:
    """The ratios of ``comparisons``, of which at least one is of a peak."""
    ratios = [comparison.ratio for comparison in comparisons if not comparison.is_component]
    count = len(ratios)
    under = sum(ratio < 1 - EQUAL_WITHIN for ratio in ratios)
    over = sum(ratio > 1 + EQUAL_WITHIN for ratio in ratios)
    return Summary(
        count=count,
        median=statistics.median(ratios),
        worst=max(ratios, key=lambda ratio: abs(ratio - 1)),
        under=under / count,
        equal=(count - under - over) / count,
        over=over / count,
    )


def with_published(
    rows: Iterable[Mapping[str, Any]], published: Iterable[Published]
) -> tuple[list[Comparison], list[str]]:
    """Rows of a report beside published figures; and what is wrong: tests without row or without figure."""
    rows = list(rows)
    comparisons: list[Comparison] = []
    troubles: list[str] = []
    for entry in published:
        if not entry.test:
            continue
        row = _row_of(entry, rows)
        if row is None:
            troubles.append(f"{entry.id}: the report has no row of {entry.test}")
            continue
        for metric, measured_bytes in entry.measured_bytes.items():
            estimate_bytes = estimated(row, metric)
            if estimate_bytes is None:
                troubles.append(f"{entry.id}: no figure for {metric}: {row['verdict']}, {row['reason']}")
                continue
            comparisons.append(published_comparison(entry, metric, estimate_bytes, measured_bytes))
    return comparisons, troubles


def with_measured(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Comparison], list[str]]:
    """The estimates of a report beside its own measurements, rank by rank."""
    comparisons: list[Comparison] = []
    troubles: list[str] = []
    for row in rows:
        estimates = {estimate["rank"]: estimate for estimate in row["estimates"]}
        if not row["measurements"]:
            troubles.append(f"{row['nodeid']}: not measured")
        for measured in row["measurements"]:
            estimate = estimates.get(measured["rank"])
            if estimate is None:
                troubles.append(f"{row['nodeid']}: rank {measured['rank']} was measured and not estimated")
                continue
            case = f"{row['nodeid']}" + (f", rank {measured['rank']}" if len(estimates) > 1 else "")
            for metric in ("allocated", "reserved"):
                pair = (estimate["peak"][metric], measured["peak"][metric])
                comparisons.append(Comparison(case, "measured here", metric, *pair))
    return comparisons, troubles


def estimated(row: Mapping[str, Any], metric: str) -> float | None:
    """The estimate of ``metric`` in a report's ``row``: a peak, or what the test recorded."""
    if metric in _PEAKS:
        peaks = [estimate["peak"][metric] for estimate in row["estimates"]]
        return max(peaks) if peaks and row["verdict"] != "error" else None
    recorded = dict(row["properties"])
    return recorded.get(f"{metric}_bytes")


def _row_of(entry: Published, rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    names = (f"{entry.test}[{entry.id}]", entry.test)
    for row in rows:
        if any(f"/{row['nodeid']}".endswith(f"/{name}") for name in names):
            return row
    return None


def published_comparison(
    entry: Published, metric: str, estimate_bytes: float, measured_bytes: float
) -> Comparison:
    """An estimate of ``entry`` with the published figure."""
    return Comparison(
        case=entry.id,
        family=entry.family,
        metric=metric,
        estimate_bytes=estimate_bytes,
        measured_bytes=measured_bytes,
        unit=entry.unit,
        explained=entry.explained,
        source=entry.source,
        setup=", ".join(filter(None, (entry.gpu, f"torch {entry.torch}", f"grade {entry.grade}"))),
    )
