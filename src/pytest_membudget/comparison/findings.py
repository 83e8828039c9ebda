"""Why a test takes more or less than at its base: the few rows that explain the difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import combinations

from ..memory_report import MemoryReport, module_pattern
from ..results.comparison import Change
from .matching import changes_between

#: Rows that a reader takes in at a glance; what they leave unexplained of the growth; and what is too
#: little of it for a row. All three are choices of presentation.
MOST_ROWS = 6
_UNEXPLAINED = 0.1
_NEGLIGIBLE = 0.005

#: Stands for a module where the growth is outside of the holders that a report names.
ELSEWHERE = "elsewhere"


def findings(head: MemoryReport, base: MemoryReport) -> tuple[Change, ...]:
    """The rows that explain the growth from the figure ``base`` to ``head``, the largest first.

    Their bytes add up to it, but for a tenth at most. None where both take the same: who holds the memory
    may have other names then, but that is no finding.
    """
    growth_bytes = head.peak_bytes - base.peak_bytes
    if not growth_bytes:
        return ()
    changes = [change for change in changes_between(head.holders, base.holders) if change.bytes]
    changes = _without_moves([*changes, *_elsewhere(head, base, changes)])
    for key in _GROUPINGS:
        rows = _explaining(_grouped(changes, key), growth_bytes)
        if rows is not None:
            return tuple(rows)
    return tuple(_with_rest(_grouped(changes, _component), growth_bytes))


def _elsewhere(head: MemoryReport, base: MemoryReport, changes: Sequence[Change]) -> list[Change]:
    """By component what the holders do not account for: a report names the largest only, and no rounding."""
    named: dict[str, int] = defaultdict(int)
    for change in changes:
        named[change.component] += change.bytes
    names = dict.fromkeys((*head.components, *base.components, *named))
    rests = {
        name: head.components.get(name, 0) - base.components.get(name, 0) - named[name] for name in names
    }
    return [Change(rest, name, ELSEWHERE, None, None, None) for name, rest in rests.items() if rest]


def _without_moves(changes: Sequence[Change]) -> list[Change]:
    """``changes`` without pairs that make up for each other: memory of one component that has moved."""
    gone: dict[tuple[str, str | None, int], list[Change]] = defaultdict(list)
    kept: dict[int, Change] = {}
    for change in changes:
        others = gone[change.component, change.operator, -change.bytes]
        if others:
            del kept[id(others.pop())]
        else:
            gone[change.component, change.operator, change.bytes].append(change)
            kept[id(change)] = change
    return list(kept.values())


def _explaining(changes: Sequence[Change], growth_bytes: int) -> list[Change] | None:
    """The fewest of ``changes``, the largest first, that add up to the growth; None if too many would."""
    rows: list[Change] = []
    rest = growth_bytes
    for change in sorted(changes, key=lambda one: -abs(one.bytes)):
        if len(rows) == MOST_ROWS or abs(change.bytes) <= abs(growth_bytes) * _NEGLIGIBLE:
            break
        rows.append(change)
        rest -= change.bytes
    if abs(rest) > abs(growth_bytes) * _UNEXPLAINED:
        return None
    return _without_needless(rows, rest, growth_bytes)


def _without_needless(rows: list[Change], rest: int, growth_bytes: int) -> list[Change]:
    """``rows`` without the smallest, and without small ones that make up for each other, if that will do."""
    most = abs(growth_bytes) * _UNEXPLAINED
    while len(rows) > 1 and abs(rest + rows[-1].bytes) <= most:
        rest += rows.pop().bytes
    small = [row for row in rows if abs(row.bytes) <= abs(growth_bytes) / 2]
    for one, other in combinations(small, 2):
        both = one.bytes + other.bytes
        if one in rows and other in rows and one.bytes * other.bytes < 0 and abs(rest + both) <= most:
            rows = [row for row in rows if row not in (one, other)]
            rest += both
    return rows


def _with_rest(changes: Sequence[Change], growth_bytes: int) -> list[Change]:
    """The largest of ``changes``, and what they leave."""
    rows = sorted(changes, key=lambda one: -abs(one.bytes))[: MOST_ROWS - 1]
    rest = growth_bytes - sum(row.bytes for row in rows)
    return [*rows, Change(rest, "others", ELSEWHERE, None, None, None)] if rest else rows


def _grouped(changes: Sequence[Change], key: Callable[[Change], Hashable]) -> list[Change]:
    """One change for all with the same ``key``, at the place of the largest."""
    groups: dict[Hashable, list[Change]] = defaultdict(list)
    for change in changes:
        groups[key(change)].append(change)
    return [_summed(group) for group in groups.values()]


def _summed(group: Sequence[Change]) -> Change:
    size = sum(change.bytes for change in group)
    # what has grown has its reason where most was added
    leads = [change for change in group if (change.bytes > 0) == (size > 0)] or list(group)
    lead = max(leads, key=lambda change: abs(change.bytes))
    one_operator = len({change.operator for change in group}) == 1
    return replace(lead, bytes=size, operator=lead.operator if one_operator or lead.location else None)


def _own(change: Change) -> Hashable:
    return id(change)


def _line(change: Change) -> Hashable:
    place = change.location or change.base_location
    return (change.component, place) if place else (change.component, change.module, change.operator)


def _module(change: Change) -> Hashable:
    return change.component, module_pattern(change.module)


def _component(change: Change) -> Hashable:
    return change.component


#: What a row is about: single holders, then all of a line, of a module, of a component. The first that
#: explains the growth in few rows is taken.
_GROUPINGS: tuple[Callable[[Change], Hashable], ...] = (_own, _line, _module, _component)
