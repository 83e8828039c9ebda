"""The summary of a session: a table of the budgets and a line of counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import GIB
from .rows import peak_bytes, ratio_of, worst_estimate, worst_measurement

_HEADERS = ("test", "budget", "estimate", "of budget", "largest component", "verdict")


def summary_lines(
    rows: Sequence[Mapping[str, Any]],
    unchecked: Mapping[str, str],
    notes: Mapping[str, str],
    not_run: int,
) -> Iterator[str]:
    """The table of ``rows``, then who was not checked and why, then the counts.

    ``notes`` say more of the verdicts of single tests; ``not_run`` tests were to run and have not.
    """
    if rows:
        from tabulate import tabulate  # only sessions with budgets pay for it

        measured = any(row["measurements"] for row in rows)
        table = [_cells(row, notes.get(row["nodeid"]), measured) for row in rows]
        headers, align = (_WITH_MEASURED, _ALIGN_MEASURED) if measured else (_HEADERS, _ALIGN)
        yield from tabulate(table, headers, disable_numparse=True, colalign=align).splitlines()
    for nodeid, why in unchecked.items():
        yield f"unchecked: {nodeid}: {why}"
    yield _counts(rows, unchecked, not_run)


_ALIGN = ("left", "right", "right", "right", "left", "left")
_WITH_MEASURED = (*_HEADERS[:3], "measured", "ratio", *_HEADERS[3:])
_ALIGN_MEASURED = (*_ALIGN[:3], "right", "right", *_ALIGN[3:])


def _cells(row: Mapping[str, Any], note: str | None, measured: bool) -> tuple[str, ...]:
    cells = _estimate_cells(row, note)
    return (*cells[:3], *_measured_cells(row), *cells[3:]) if measured else cells


def _measured_cells(row: Mapping[str, Any]) -> tuple[str, str]:
    measurement, ratio = worst_measurement(row), ratio_of(row)
    if measurement is None or ratio is None:
        return "-", "-"
    return f"{peak_bytes(measurement) / GIB:.2f} GiB", f"{ratio:.3f}"


def _estimate_cells(row: Mapping[str, Any], note: str | None) -> tuple[str, ...]:
    verdict = f"{row['verdict']} ({note})" if note else row["verdict"]
    limit, estimate = row["limit_bytes"], worst_estimate(row)
    limit_text = f"{limit / GIB:.2f} GiB" if limit is not None else "-"
    if estimate is None or not peak_bytes(estimate):
        return (row["nodeid"], limit_text, "-", "-", "-", verdict)
    peak = peak_bytes(estimate)
    name, size = max(estimate["components"].items(), key=lambda entry: entry[1])
    share = f"{peak / limit:.0%}" if limit else "-"
    return (
        row["nodeid"],
        limit_text,
        f"{peak / GIB:.2f} GiB",
        share,
        f"{name} {size / GIB:.2f} GiB",
        verdict,
    )


def _measured_parts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many were measured, and of those that were within why the others were not."""
    measured = sum(bool(row["measurements"]) for row in rows)
    reasons = Counter(row["not_measured"] for row in rows if row["not_measured"])
    return [f"{measured} measured", *(f"{count} not measured ({why})" for why, count in reasons.items())]


def _counts(rows: Sequence[Mapping[str, Any]], unchecked: Mapping[str, str], not_run: int) -> str:
    verdicts = [row["verdict"] for row in rows]
    within, over, failed = (verdicts.count(word) for word in ("within", "over", "error"))
    parts = [f"{within + over} estimated ({within} within, {over} over)"]
    if failed:
        parts.append(f"{failed} without an estimate")
    parts += _measured_parts(rows)
    if unchecked:
        parts.append(f"{len(unchecked)} unchecked")
    if not_run:
        parts.append(f"{not_run} not run")
    return ", ".join(parts)
