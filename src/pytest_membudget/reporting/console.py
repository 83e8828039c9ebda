"""The terminal summary of a session: a table of the budgets and a line of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..budgets.verdict import UNSET
from ..memory_report import MemoryReport
from ..results.comparison import SHRUNK, UNCHANGED, WAIVED, growth_text, versions_text
from ..results.lock import KEPT
from ..results.lock import SHRUNK as LOCK_SHRUNK
from ..results.test_result import TestResult
from ..units import GIB, gib_text
from .causes import change_lines, signed_growth
from .marks import legend, small_line


def summary_lines(
    rows: Sequence[TestResult],
    unchecked: Mapping[str, str],
    notes: Mapping[str, str],
    not_run: int,
) -> Iterator[str]:
    """The table of ``rows``, what changed in tests that pass, those not checked and why, then the counts.

    ``notes``: additions to single verdicts. ``not_run``: how many tests were to run and did not.
    """
    if rows:
        from tabulate import tabulate  # imported only in sessions with budgets

        cells = [_cells(row, notes.get(row.nodeid)) for row in rows]
        headers = [
            name for name in cells[0] if name not in _OPTIONAL or any(row[name] != "-" for row in cells)
        ]
        table = [[row[name] for name in headers] for row in cells]
        align = ["left" if name in _TEXTS else "right" for name in headers]
        yield from tabulate(table, headers, disable_numparse=True, colalign=align).splitlines()
    yield from legend(rows)
    yield from small_line(rows)
    yield from _changed(rows)
    for row in rows:
        if row.lock is not None and row.lock.status == LOCK_SHRUNK:
            yield f"{LOCK_SHRUNK}: {row.nodeid} {row.lock.reason}"
    unset = [row for row in rows if row.verdict == UNSET]
    for row in unset[:_UNSET]:
        yield f"unset: {row.nodeid}: {row.reason}"
    if len(unset) > _UNSET:
        yield f"and {len(unset) - _UNSET} more without a limit; report.json has all"
    for nodeid, why in unchecked.items():
        yield f"unchecked: {nodeid}: {why}"
    yield _counts(rows, unchecked, not_run)


#: Columns that are shown only if a test has a value in them.
_OPTIONAL = ("rank", "base", "growth", "analytic", "measured", "ratio", "host")
#: Most passing tests whose changes are listed, the largest first.
_CHANGED = 10
#: Tests without a limit that are listed with what to write.
_UNSET = 20
_TEXTS = ("test", "rank", "largest component", "verdict")


def _cells(row: TestResult, note: str | None) -> dict[str, str]:
    """The cells of ``row`` by column; of several ranks, those of the rank that takes most."""
    limit, estimate = row.limit_bytes, row.worst_estimate
    peak = estimate.peak_bytes if estimate is not None else 0
    return {
        "test": row.nodeid,
        "budget": _gib(limit),
        "estimate": _gib(peak or None),
        "rank": f"{estimate.rank} of {row.gpus}" if estimate is not None and row.gpus > 1 else "-",
        **_since_base(row),
        "analytic": _analytic(row),
        **_measured_cells(row),
        "of budget": f"{peak / limit:.0%}" if limit and peak else "-",
        "host": _host(row),
        "largest component": _largest(estimate) if estimate is not None and peak else "-",
        "verdict": _verdict(row, note),
    }


def _changed(rows: Sequence[TestResult]) -> Iterator[str]:
    """Lines on tests that pass and take more or less than at the base."""
    found = [
        (row, row.comparison)
        for row in rows
        if row.comparison is not None
        and row.comparison.findings
        and (row.status in (WAIVED, SHRUNK) or _is_allowed(row))
    ]
    found.sort(key=lambda pair: -abs(pair[1].growth_bytes))
    for row, comparison in found[:_CHANGED]:
        growth = growth_text(comparison.growth_bytes, comparison.base_bytes or 0)
        versions = versions_text(comparison.distributions)
        yield f"{_status_word(row)}: {row.nodeid} {growth}{versions and f', with {versions}'}"
        yield from change_lines(comparison)
    if len(found) > _CHANGED:
        yield f"and {len(found) - _CHANGED} more that changed and pass; report.json has all"


def _verdict(row: TestResult, note: str | None) -> str:
    """The verdict, in brackets the change since the base and a note, if there are any."""
    lock = f"lock: {row.lock.status}" if row.lock is not None and row.lock.status != KEPT else ""
    said = [word for word in (lock, row.status, note) if word and word != UNCHANGED]
    verdict = f"{row.verdict} {row.mark}" if row.mark else row.verdict
    return f"{verdict} ({', '.join(said)})" if said else verdict


def _since_base(row: TestResult) -> dict[str, str]:
    """The base's figure and the growth since, with its percentage if it is not zero."""
    comparison = row.comparison
    if comparison is None or comparison.base_bytes is None:
        return {"base": "-", "growth": "-"}
    return {"base": _gib(comparison.base_bytes), "growth": signed_growth(comparison)}


def _analytic(row: TestResult) -> str:
    """The figure of the scenario that the test names, and its ratio to the test's estimate."""
    figure, estimate = row.scenario_figure, row.estimate_of_verdict
    if figure is None or estimate is None or not estimate.peak_bytes:
        return "-"
    return f"{_gib(figure.peak_bytes)} ({figure.peak_bytes / estimate.peak_bytes:.3f})"


def _measured_cells(row: TestResult) -> dict[str, str]:
    measurement, ratio = row.worst_measurement, row.ratio
    if measurement is None or ratio is None:
        return {"measured": "-", "ratio": "-"}
    return {"measured": _gib(measurement.peak_bytes), "ratio": f"{ratio:.3f}"}


def _host(row: TestResult) -> str:
    """The host memory of the machine that holds most, for tests with a budget for it."""
    budget_gib = row.budget.host_gib if row.budget is not None else None
    if budget_gib is None:
        return "-"
    return f"{_gib(row.host_bytes or 0).removesuffix(' GiB')} of {budget_gib:.2f} GiB"


def _largest(estimate: MemoryReport) -> str:
    name, size = max(estimate.components.items(), key=lambda entry: entry[1])
    return f"{name} {_gib(size)}"


def _gib(size_bytes: int | None) -> str:
    """In GiB, so that sizes of a column compare; in smaller units if GiB would show no digits."""
    if size_bytes is None:
        return "-"
    return gib_text(size_bytes) if size_bytes < GIB / 100 else f"{size_bytes / GIB:.2f} GiB"


def _measured_parts(rows: Sequence[TestResult]) -> list[str]:
    """How many tests were measured, and why the others within their budgets were not."""
    measured = sum(bool(row.measurements) for row in rows)
    reasons = Counter(row.not_measured for row in rows if row.not_measured)
    return [f"{measured} measured", *(f"{count} not measured ({why})" for why, count in reasons.items())]


def _lock_parts(rows: Sequence[TestResult]) -> list[str]:
    """Counts of what the comparison with the lock file has found."""
    statuses = Counter(row.lock.status for row in rows if row.lock is not None)
    found = ", ".join(f"{count} {status}" for status, count in statuses.items())
    return [f"{sum(statuses.values())} in the lock file ({found})"] if found else []


def _compared_parts(rows: Sequence[TestResult]) -> list[str]:
    """Counts by comparison status, and how many tests with ``max_growth`` were not compared."""
    statuses = Counter(_status_word(row) for row in rows if row.status is not None)
    known = [row for row in rows if row.verdict in ("within", "over") and _allows_growth(row)]
    idle = sum(row.status is None for row in known)
    parts = [f"{count} {status}" for status, count in statuses.items()]
    return [*parts, f"{idle} not compared (max_growth needs --membudget-compare)"] if idle else parts


def _is_allowed(row: TestResult) -> bool:
    """Whether it has grown by no more than its mark allows."""
    comparison = row.comparison
    return comparison is not None and comparison.status == UNCHANGED and comparison.growth_bytes > 0


def _status_word(row: TestResult) -> str | None:
    """The status in words; growth that the mark allows is not shown as unchanged."""
    return "grown and allowed" if _is_allowed(row) else row.status


def _allows_growth(row: TestResult) -> bool:
    return row.budget is not None and row.budget.max_growth is not None


def _counts(rows: Sequence[TestResult], unchecked: Mapping[str, str], not_run: int) -> str:
    verdicts = [row.verdict for row in rows]
    within, over, unset, failed = (verdicts.count(word) for word in ("within", "over", "unset", "error"))
    cached = sum(row.cached for row in rows)
    kept = f", {cached} from cache" if cached else ""
    no_limit = f", {unset} unset" if unset else ""
    parts = [f"{within + over + unset} estimated ({within} within, {over} over{no_limit}{kept})"]
    if failed:
        parts.append(f"{failed} without an estimate")
    parts += [*_lock_parts(rows), *_compared_parts(rows), *_measured_parts(rows)]
    if unchecked:
        parts.append(f"{len(unchecked)} unchecked")
    if not_run:
        parts.append(f"{not_run} not run")
    return ", ".join(parts)
