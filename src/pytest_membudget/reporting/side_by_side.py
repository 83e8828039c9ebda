"""Estimate and measurement of one test, component by component."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ..units import gib_text
from .rows import beside, compared, estimate_of_verdict, gpus_of, peak_bytes, ratio_of

_WIDTH = 20
#: Components that a disagreement names.
_NAMED = 3


def side_by_side(row: Mapping[str, Any]) -> list[str]:
    """A table of ``row``, which has both: estimate, measurement and their ratio."""
    both = compared(row)
    assert both is not None
    estimate, measurement = both
    metric = measurement["metric"]
    rows = [
        (name, estimate["components"].get(name, 0), size)
        for name, size in measurement["components"].items()
        if size or estimate["components"].get(name)
    ]
    rows.append((f"= {metric}", peak_bytes(estimate), peak_bytes(measurement)))
    of_all = f" of {gpus_of(row)}" if gpus_of(row) > 1 else ""
    beside = "" if estimate["rank"] == measurement["rank"] else f", estimated on rank {estimate['rank']}"
    lines = [
        f"Peak {metric} (rank {measurement['rank']}{of_all}{beside}):",
        f"  {'':<{_WIDTH}} {'estimate':>12} {'measured':>12}  ratio",
    ]
    for name, estimated, measured in rows:
        ratio = f"{estimated / measured:6.3f}" if measured else "      "
        lines.append(f"  {name:<{_WIDTH}} {gib_text(estimated):>12} {gib_text(measured):>12} {ratio}")
    return lines


def three_ways(row: Mapping[str, Any]) -> list[str]:
    """A table of ``row``, whose test names a scenario: analytic, traced and, where it was, measured."""
    analytic, both = beside(row), compared(row)
    traced = both[0] if both is not None else estimate_of_verdict(row)
    assert analytic is not None
    assert traced is not None
    figures = [analytic, traced, *(both[1:] if both is not None else ())]
    metric = traced["metric"]
    of_all = f" of {gpus_of(row)}" if gpus_of(row) > 1 else ""
    heads = "".join(f" {figure['kind']:>12}" for figure in figures)
    ratios = "".join(f"  {one['kind']}/{other['kind']}" for one, other in pairwise(figures))
    lines = [f"Peak {metric} (rank {traced['rank']}{of_all}):", f"  {'':<{_WIDTH}}{heads}{ratios}"]
    names = [
        name for name in traced["components"] if any(figure["components"].get(name) for figure in figures)
    ]
    for name in names:
        lines.append(
            _beside_each_other(name, [figure["components"].get(name, 0) for figure in figures], figures)
        )
    lines.append(_beside_each_other(f"= {metric}", [peak_bytes(figure) for figure in figures], figures))
    return lines


def _beside_each_other(name: str, sizes: list[int], figures: list[Mapping[str, Any]]) -> str:
    line = f"  {name:<{_WIDTH}}" + "".join(f" {gib_text(size):>12}" for size in sizes)
    for number in range(1, len(sizes)):
        width = len(f"{figures[number - 1]['kind']}/{figures[number]['kind']}") + 2
        ratio = f"{sizes[number - 1] / sizes[number]:.3f}" if sizes[number] else ""
        line += f"{ratio:>{width}}"
    return line.rstrip()


def disagreements(row: Mapping[str, Any], most: float) -> list[str]:
    """What to say of ``row``'s figures that lie apart by more than the fraction ``most``."""
    measured = disagreement(row, most)
    found = [measured] if measured is not None else []
    analytic, traced = beside(row), estimate_of_verdict(row)
    if analytic is None or traced is None or not peak_bytes(traced):
        return found
    ratio = peak_bytes(analytic) / peak_bytes(traced)
    if abs(ratio - 1) > most:
        found.append(
            f"{row['nodeid']}: analytic {gib_text(peak_bytes(analytic))}, {traced['kind']} "
            f"{gib_text(peak_bytes(traced))}, ratio {ratio:.3f}; the analytic figure has "
            f"{_differences(analytic, traced)}"
        )
    return found


def disagreement(row: Mapping[str, Any], most: float) -> str | None:
    """What to say of a row whose estimate is off by more than the fraction ``most``."""
    ratio = ratio_of(row)
    if ratio is None or abs(ratio - 1) <= most:
        return None
    both = compared(row)
    assert both is not None
    estimate, measurement = both
    return (
        f"{row['nodeid']}: estimate {gib_text(peak_bytes(estimate))}, measured "
        f"{gib_text(peak_bytes(measurement))}, ratio {ratio:.3f}; the estimate has "
        f"{_differences(estimate, measurement)}"
    )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The components that ``one`` has most more or less of than ``other``."""
    differences = {
        name: one["components"].get(name, 0) - other["components"].get(name, 0)
        for name in {**one["components"], **other["components"]}
    }
    worst = sorted(differences.items(), key=lambda entry: -abs(entry[1]))[:_NAMED]
    return ", ".join(
        f"{gib_text(abs(size))} {'more' if size > 0 else 'less'} {name}" for name, size in worst if size
    )
