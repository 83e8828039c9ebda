"""The summary of a session: a table of the budgets and a line of counts."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from ..units import GIB
from .rows import peak_bytes, worst_estimate

_HEADERS = ("test", "budget", "estimate", "of budget", "largest component", "verdict")


def summary_lines(
    rows: Sequence[Mapping[str, Any]], unchecked: Mapping[str, str], expected: Container[str] = ()
) -> Iterator[str]:
    """The table of ``rows``, then who was not checked and why, then the counts.

    ``expected`` are the tests whose failure an xfail mark expects.
    """
    if rows:
        from tabulate import tabulate  # only sessions with budgets pay for it

        table = [_cells(row, " (expected)" if row["nodeid"] in expected else "") for row in rows]
        yield from tabulate(table, _HEADERS, disable_numparse=True, colalign=_ALIGN).splitlines()
    for nodeid, why in unchecked.items():
        yield f"unchecked: {nodeid}: {why}"
    yield _counts(rows, unchecked)


_ALIGN = ("left", "right", "right", "right", "left", "left")


def _cells(row: Mapping[str, Any], note: str) -> tuple[str, ...]:
    limit, estimate = row["limit_bytes"], worst_estimate(row)
    limit_text = f"{limit / GIB:.2f} GiB" if limit is not None else "-"
    if estimate is None or not peak_bytes(estimate):
        return (row["nodeid"], limit_text, "-", "-", "-", row["verdict"] + note)
    peak = peak_bytes(estimate)
    name, size = max(estimate["components"].items(), key=lambda entry: entry[1])
    share = f"{peak / limit:.0%}" if limit else "-"
    return (
        row["nodeid"],
        limit_text,
        f"{peak / GIB:.2f} GiB",
        share,
        f"{name} {size / GIB:.2f} GiB",
        row["verdict"] + note,
    )


def _counts(rows: Sequence[Mapping[str, Any]], unchecked: Mapping[str, str]) -> str:
    verdicts = [row["verdict"] for row in rows]
    within, over, failed = (verdicts.count(word) for word in ("within", "over", "error"))
    parts = [f"{within + over} estimated ({within} within, {over} over)"]
    if failed:
        parts.append(f"{failed} without an estimate")
    parts.append("0 measured (this release measures nothing)")
    if unchecked:
        parts.append(f"{len(unchecked)} unchecked")
    return ", ".join(parts)
