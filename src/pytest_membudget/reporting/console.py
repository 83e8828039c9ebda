"""The summary of a session: a table of the budgets and a line of counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import GIB
from .rows import peak_bytes, worst_estimate

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

        table = [_cells(row, notes.get(row["nodeid"])) for row in rows]
        yield from tabulate(table, _HEADERS, disable_numparse=True, colalign=_ALIGN).splitlines()
    for nodeid, why in unchecked.items():
        yield f"unchecked: {nodeid}: {why}"
    yield _counts(rows, unchecked, not_run)


_ALIGN = ("left", "right", "right", "right", "left", "left")


def _cells(row: Mapping[str, Any], note: str | None) -> tuple[str, ...]:
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


def _counts(rows: Sequence[Mapping[str, Any]], unchecked: Mapping[str, str], not_run: int) -> str:
    verdicts = [row["verdict"] for row in rows]
    within, over, failed = (verdicts.count(word) for word in ("within", "over", "error"))
    parts = [f"{within + over} estimated ({within} within, {over} over)"]
    if failed:
        parts.append(f"{failed} without an estimate")
    parts.append("0 measured (this release measures nothing)")
    if unchecked:
        parts.append(f"{len(unchecked)} unchecked")
    if not_run:
        parts.append(f"{not_run} not run")
    return ", ".join(parts)
