"""Compares the analytic, estimated and measured figures of one test, and reports which disagree."""

from __future__ import annotations

from itertools import pairwise

from ..memory_report import MemoryReport
from ..results.test_result import TestResult
from ..units import gib_text

_WIDTH = 20
#: Components that the line of a disagreement names.
_NAMED = 3


def figures_table(row: TestResult) -> list[str]:
    """A table of ``row``'s figures by component, at least two, and the ratio of each two neighbours."""
    analytic, both = row.scenario_figure, row.estimate_and_measurement
    estimate = both[0] if both is not None else row.estimate_of_verdict
    figures = [one for one in (analytic, estimate, both[1] if both is not None else None) if one is not None]
    heads = [figure.kind for figure in figures] if analytic is not None else ["estimate", "measured"]
    names = dict.fromkeys(name for figure in reversed(figures) for name in figure.components)
    lines = [_title(row, figures[-1], estimate), _line("", heads, ["ratio"] * (len(heads) - 1))]
    for name in names:
        sizes = [figure.components.get(name, 0) for figure in figures]
        if any(sizes):
            lines.append(_sizes_line(name, sizes))
    total = _sizes_line(f"= {total_name(figures[-1])}", [figure.peak_bytes for figure in figures])
    return [*lines, total]


def peak_title(rank: int, gpus: int, more: str = "") -> str:
    """The heading of a table of components: the rank, where there are several, and ``more``."""
    of_rank = f" of rank {rank} of {gpus}" if gpus > 1 else ""
    return f"Peak memory{of_rank}{more}:"


def total_name(report: MemoryReport) -> str:
    """The name of the sum of all components: the metric, where it is not that of most tests."""
    return "total" if report.metric == "allocated" else report.metric


def _title(row: TestResult, last: MemoryReport, estimate: MemoryReport | None) -> str:
    is_other = estimate is not None and estimate.rank != last.rank
    other = f", estimated on rank {estimate.rank}" if estimate is not None and is_other else ""
    return peak_title(last.rank, row.gpus, other)


def _sizes_line(name: str, sizes: list[int]) -> str:
    ratios = [f"{one / other:.3f}" if other else "" for one, other in pairwise(sizes)]
    return _line(name, [gib_text(size) for size in sizes], ratios)


def _line(name: str, cells: list[str], ratios: list[str]) -> str:
    """``cells`` as a line of the table; each of ``ratios`` right of the two that it is of."""
    pairs = zip(cells[1:], ratios, strict=True)
    line = f"  {name:<{_WIDTH}} {cells[0]:>12}" + "".join(f" {cell:>12}{ratio:>7}" for cell, ratio in pairs)
    return line.rstrip()


def disagreements(row: TestResult, most: float) -> list[str]:
    """A line for each two figures of ``row`` that differ by more than the fraction ``most``."""
    both, analytic, traced = row.estimate_and_measurement, row.scenario_figure, row.estimate_of_verdict
    pairs = [("estimate", "measured", "the estimate", *both)] if both is not None else []
    if analytic is not None and traced is not None:
        pairs.append(("analytic", traced.kind, "the analytic figure", analytic, traced))
    found = []
    for name, other_name, subject, one, other in pairs:
        ratio = one.peak_bytes / other.peak_bytes if other.peak_bytes else 1.0
        if abs(ratio - 1) > most:
            found.append(
                f"{row.nodeid}: {name} {gib_text(one.peak_bytes)}, {other_name} "
                f"{gib_text(other.peak_bytes)}, ratio {ratio:.3f}; {subject} has {_differences(one, other)}"
            )
    return found


def _differences(one: MemoryReport, other: MemoryReport) -> str:
    """The components in which ``one`` and ``other`` differ most."""
    differences = {
        name: one.components.get(name, 0) - other.components.get(name, 0)
        for name in {**one.components, **other.components}
    }
    worst = sorted(differences.items(), key=lambda entry: -abs(entry[1]))[:_NAMED]
    return ", ".join(
        f"{gib_text(abs(size))} {'more' if size > 0 else 'less'} {name}" for name, size in worst if size
    )
