"""Matches the requests of two histories by file and line, then by function, then by size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .comparison import Allocation

#: How requests were matched that are not at one line.
BY_FUNCTION: Final = "equal by function"
BY_SIZE: Final = "equal by size"


@dataclass(frozen=True, slots=True)
class Match:
    """Requests of one size that are at one place in the first history and at another in the second."""

    first: Allocation
    second: Allocation
    count: int
    how: str


@dataclass(frozen=True, slots=True)
class RequestMatching:
    """The requests of two histories, those left out that are at one line."""

    matches: tuple[Match, ...]
    first: Mapping[Allocation, int]
    """What the first has besides; no size of it is left in the second."""
    second: Mapping[Allocation, int]


def matched(first: Mapping[Allocation, int], second: Mapping[Allocation, int]) -> RequestMatching:
    """Match requests of one size: of one file and line, then of one function, then in their order."""
    left, right = Counter(first), Counter(second)
    same = left & right
    left -= same
    right -= same
    matches = [
        *_pairs(left, right, _function_and_size, BY_FUNCTION),
        *_pairs(left, right, lambda one: one.size_bytes, BY_SIZE),
    ]
    return RequestMatching(tuple(matches), +left, +right)


def _function_and_size(one: Allocation) -> object:
    return (one.function, one.size_bytes) if one.function else None


def _pairs(
    left: Counter[Allocation], right: Counter[Allocation], key: Callable[[Allocation], object], how: str
) -> Iterator[Match]:
    """Take what has the same ``key``, not None, out of both."""
    by_key: dict[object, list[Allocation]] = {}
    for other in right:
        by_key.setdefault(key(other), []).append(other)
    for one in list(left):
        for other in by_key.get(key(one), []) if key(one) is not None else []:
            count = min(left[one], right[other])
            if count:
                left[one] -= count
                right[other] -= count
                yield Match(one, other, count, how)
