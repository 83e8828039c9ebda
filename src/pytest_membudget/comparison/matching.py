"""Which holders of head and base are the same, though lines have moved and names have changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..memory_report import Holder, module_pattern
from ..results.comparison import Change

_Key = Callable[[Holder], Hashable | None]


def changes_between(head: Iterable[Holder], base: Iterable[Holder]) -> list[Change]:
    """Every holder once: with its counterpart at the base, or without where it is new or gone."""
    left, right = list(head), list(base)
    found: list[Change] = []
    for key in _KEYS:
        left, right, matched = _matched(left, right, key)
        found += matched
    found += [_change([holder], []) for holder in left]
    found += [_change([], [holder]) for holder in right]
    return found


def _file(holder: Holder) -> str | None:
    location = holder.location
    return location.rpartition(":")[0] if location is not None else None


def _place(holder: Holder) -> Hashable:
    return holder.component, module_pattern(holder.module), holder.operator


def _same_line(holder: Holder) -> Hashable | None:
    source = holder.source
    return (*_tuple(_place(holder)), _file(holder), source) if source else None


def _line_in_another_file(holder: Holder) -> Hashable | None:
    source = holder.source
    return (*_tuple(_place(holder)), source) if source else None


def _same_text(holder: Holder) -> Hashable | None:
    """A module that has another name."""
    source = holder.source
    return (holder.component, holder.operator, source) if source else None


def _same_location(holder: Holder) -> Hashable:
    return (*_tuple(_place(holder)), holder.location)


def _same_size(holder: Holder) -> Hashable:
    """A line that says the same in other names."""
    return holder.component, holder.operator, holder.bytes, holder.count


def _same_module(holder: Holder) -> Hashable | None:
    """A line that was written anew, in the same module and file."""
    return (*_tuple(_place(holder)), _file(holder)) if holder.location is not None else None


def _tuple(value: Hashable) -> tuple[Any, ...]:
    assert isinstance(value, tuple)
    return value


#: The surest first. What one of them has matched is not looked at again.
_KEYS: tuple[_Key, ...] = (
    _same_line,
    _line_in_another_file,
    _same_text,
    _same_location,
    _same_size,
    _same_module,
)


def _matched(
    head: list[Holder], base: list[Holder], key: _Key
) -> tuple[list[Holder], list[Holder], list[Change]]:
    """What is left of both, and the changes of those that ``key`` finds on both sides."""
    heads, bases = _by(head, key), _by(base, key)
    both = [name for name in heads if name in bases and name is not None]
    found = [change for name in both for change in _paired(heads[name], bases[name])]
    return (
        [holder for name, held in heads.items() if name not in both for holder in held],
        [holder for name, held in bases.items() if name not in both for holder in held],
        found,
    )


def _paired(heads: list[Holder], bases: list[Holder]) -> list[Change]:
    """Line by line where there are as many on both sides, else all of them as one."""
    if len(heads) != len(bases):
        return [_change(heads, bases)]

    def line(holder: Holder) -> int:
        number = (holder.location or "").rpartition(":")[2]
        return int(number) if number.isdecimal() else 0

    pairs = zip(sorted(heads, key=line), sorted(bases, key=line), strict=True)
    return [_change([head], [base]) for head, base in pairs]


def _by(holders: list[Holder], key: _Key) -> dict[Hashable | None, list[Holder]]:
    groups: dict[Hashable | None, list[Holder]] = defaultdict(list)
    for holder in holders:
        groups[key(holder)].append(holder)
    return groups


def _change(heads: list[Holder], bases: list[Holder]) -> Change:
    largest = max(heads or bases, key=lambda holder: int(holder.bytes))
    before = max(bases, key=lambda holder: int(holder.bytes), default=None)
    return Change(
        bytes=sum(holder.bytes for holder in heads) - sum(holder.bytes for holder in bases),
        component=largest.component,
        module=largest.module,
        location=largest.location if heads else None,
        base_location=before.location if before is not None else None,
        operator=largest.operator,
    )
