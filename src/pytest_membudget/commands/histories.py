"""The lines of ``membudget compare`` for two allocator histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..histories.comparison import Allocation, Difference, Match, Side, differences, matched
from ..units import MIB

_ROWS = 30
_HEADERS = ("request", "recorded", "estimated", "difference", "place and operator")
_ALIGN = ("right", "right", "right", "right", "left")


def comparison_lines(first: Side, second: Side) -> Iterator[str]:
    """Both peaks, what is held at them, and the requests that the two have unequally often."""
    for name, side in (("recorded", first), ("estimated", second)):
        yield (
            f"{name}: peak requested {_mib(side.peak_requested_bytes)}, "
            f"reserved {_mib(side.peak_reserved_bytes)}, {sum(side.requests.values())} requests"
        )
    ratio = second.peak_requested_bytes / max(1, first.peak_requested_bytes)
    yield f"estimated / recorded: {ratio:.4f} requested"
    operators = {**second.operators, **{key: value for key, value in first.operators.items() if value}}
    yield from _section("Held at the peaks", first.held, second.held, operators)
    yield from _section("Asked for", first.requests, second.requests, operators)


def _section(
    title: str,
    first: Mapping[Allocation, int],
    second: Mapping[Allocation, int],
    operators: Mapping[Allocation, str],
) -> Iterator[str]:
    matches, first, second = matched(first, second)
    found = differences(first, second, operators)
    yield ""
    if matches:
        yield f"{title}, the same sizes at other places:"
        yield from _matches(matches)
        yield ""
    if not found:
        yield f"{title}: the same in both."
        return
    yield f"{title}, {len(found)} differences, {_mib(sum(row.bytes for row in found))} together:"
    yield from _table(found[:_ROWS])
    if len(found) > _ROWS:
        rest = sum(row.bytes for row in found[_ROWS:])
        yield f"and {len(found) - _ROWS} more, {_mib(rest)} together"


def _matches(matches: Sequence[Match]) -> Iterator[str]:
    for match in sorted(matches, key=lambda one: -one.count * one.first.size_bytes)[:_ROWS]:
        size = f"{match.first.size_bytes:,} B x{match.count}"
        yield f"  {match.how}: {size}, recorded {match.first.place}, estimated {match.second.place}"
    if len(matches) > _ROWS:
        yield f"  and {len(matches) - _ROWS} more"


def _table(rows: Sequence[Difference]) -> list[str]:
    from tabulate import tabulate  # only this command pays for it

    cells = [
        (
            f"{row.allocation.size_bytes:,} B",
            f"x{row.first_count}",
            f"x{row.second_count}",
            f"{row.bytes / MIB:+,.3f} MiB",
            f"{row.allocation.place} {row.operator}",
        )
        for row in rows
    ]
    table = tabulate(cells, _HEADERS, tablefmt="plain", disable_numparse=True, colalign=_ALIGN)
    return [line.rstrip() for line in table.splitlines()]


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.3f} MiB"
