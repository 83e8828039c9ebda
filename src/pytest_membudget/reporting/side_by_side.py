"""Estimate and measurement of one test, component by component."""

from __future__ import annotations

from itertools import pairwise

from ..memory_report import MemoryReport
from ..results.test_result import TestResult
from ..units import gib_text

_WIDTH = 20
#: Components that a disagreement names.
_NAMED = 3


def side_by_side(row: TestResult) -> list[str]:
    """A table of ``row``, which has both: estimate, measurement and their ratio."""
    both = row.estimate_and_measurement
    assert both is not None
    estimate, measurement = both
    metric = measurement.metric
    rows = [
        (name, estimate.components.get(name, 0), size)
        for name, size in measurement.components.items()
        if size or estimate.components.get(name)
    ]
    rows.append((f"= {metric}", estimate.peak_bytes, measurement.peak_bytes))
    of_all = f" of {row.gpus}" if row.gpus > 1 else ""
    elsewhere = "" if estimate.rank == measurement.rank else f", estimated on rank {estimate.rank}"
    lines = [
        f"Peak {metric} (rank {measurement.rank}{of_all}{elsewhere}):",
        f"  {'':<{_WIDTH}} {'estimate':>12} {'measured':>12}  ratio",
    ]
    for name, estimated, measured in rows:
        ratio = f"{estimated / measured:6.3f}" if measured else "      "
        lines.append(f"  {name:<{_WIDTH}} {gib_text(estimated):>12} {gib_text(measured):>12} {ratio}")
    return lines


def three_ways(row: TestResult) -> list[str]:
    """A table of ``row``, whose test names a scenario: analytic, traced and, where it was, measured."""
    analytic, both = row.scenario_figure, row.estimate_and_measurement
    traced = both[0] if both is not None else row.estimate_of_verdict
    assert analytic is not None
    assert traced is not None
    figures = [analytic, traced, *(both[1:] if both is not None else ())]
    metric = traced.metric
    of_all = f" of {row.gpus}" if row.gpus > 1 else ""
    heads = "".join(f" {figure.kind:>12}" for figure in figures)
    ratios = "".join(f"  {one.kind}/{other.kind}" for one, other in pairwise(figures))
    lines = [f"Peak {metric} (rank {traced.rank}{of_all}):", f"  {'':<{_WIDTH}}{heads}{ratios}"]
    names = [name for name in traced.components if any(figure.components.get(name) for figure in figures)]
    for name in names:
        lines.append(
            _beside_each_other(name, [figure.components.get(name, 0) for figure in figures], figures)
        )
    lines.append(_beside_each_other(f"= {metric}", [figure.peak_bytes for figure in figures], figures))
    return lines


def _beside_each_other(name: str, sizes: list[int], figures: list[MemoryReport]) -> str:
    line = f"  {name:<{_WIDTH}}" + "".join(f" {gib_text(size):>12}" for size in sizes)
    for number in range(1, len(sizes)):
        width = len(f"{figures[number - 1].kind}/{figures[number].kind}") + 2
        ratio = f"{sizes[number - 1] / sizes[number]:.3f}" if sizes[number] else ""
        line += f"{ratio:>{width}}"
    return line.rstrip()


def disagreements(row: TestResult, most: float) -> list[str]:
    """What to say of ``row``'s figures that lie apart by more than the fraction ``most``."""
    measured = disagreement(row, most)
    found = [measured] if measured is not None else []
    analytic, traced = row.scenario_figure, row.estimate_of_verdict
    if analytic is None or traced is None or not traced.peak_bytes:
        return found
    ratio = analytic.peak_bytes / traced.peak_bytes
    if abs(ratio - 1) > most:
        found.append(
            f"{row.nodeid}: analytic {gib_text(analytic.peak_bytes)}, {traced.kind} "
            f"{gib_text(traced.peak_bytes)}, ratio {ratio:.3f}; the analytic figure has "
            f"{_differences(analytic, traced)}"
        )
    return found


def disagreement(row: TestResult, most: float) -> str | None:
    """What to say of a row whose estimate is off by more than the fraction ``most``."""
    ratio = row.ratio
    if ratio is None or abs(ratio - 1) <= most:
        return None
    both = row.estimate_and_measurement
    assert both is not None
    estimate, measurement = both
    return (
        f"{row.nodeid}: estimate {gib_text(estimate.peak_bytes)}, measured "
        f"{gib_text(measurement.peak_bytes)}, ratio {ratio:.3f}; the estimate has "
        f"{_differences(estimate, measurement)}"
    )


def _differences(one: MemoryReport, other: MemoryReport) -> str:
    """The components that ``one`` has most more or less of than ``other``."""
    differences = {
        name: one.components.get(name, 0) - other.components.get(name, 0)
        for name in {**one.components, **other.components}
    }
    worst = sorted(differences.items(), key=lambda entry: -abs(entry[1]))[:_NAMED]
    return ", ".join(
        f"{gib_text(abs(size))} {'more' if size > 0 else 'less'} {name}" for name, size in worst if size
    )
