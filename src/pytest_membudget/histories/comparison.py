"""Compares two histories: what each holds at its peak, and the requests that only one of them has.

Requests are matched by file and line, then by function, then by size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from ..allocator.history import ACTIVE_ALLOCATED, DeviceHistory, Frames
from .places import BACKWARD, NOWHERE, is_node, operator_of, place_of, users_function_of

#: How requests were matched that are not at one line.
BY_FUNCTION: Final = "equal by function"
BY_SIZE: Final = "equal by size"

#: What actions add to the memory that is requested and to what is reserved.
_REQUESTED: Final = {"alloc": 1, "free_requested": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass(frozen=True, slots=True)
class Allocation:
    """Requests of one size at one place."""

    place: str
    size_bytes: int
    function: str = field(default="", compare=False)
    """The file and the function of the place; empty where it is no line."""


@dataclass(frozen=True, slots=True)
class Side:
    """The requests of one history."""

    peak_requested_bytes: int
    """Of the memory that is allocated, without what the allocator adds to round it."""
    peak_reserved_bytes: int
    requests: Mapping[Allocation, int]
    """How often each was requested."""
    held: Mapping[Allocation, int]
    """How many of each were held at the first of these peaks."""
    operators: Mapping[Allocation, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One kind of request that the two histories have unequally often."""

    allocation: Allocation
    operator: str
    first_count: int
    second_count: int

    @property
    def bytes(self) -> int:
        """By how much the second is above the first."""
        return (self.second_count - self.first_count) * self.allocation.size_bytes


def side_of(history: DeviceHistory, *, by_node: bool) -> Side:
    """The requests of ``history``; without ``by_node`` all of backward is one place."""
    blocks = [block for segment in history.segments for block in segment.blocks]
    requested = _held(
        history, _REQUESTED, sum(one.requested_bytes for one in blocks if one.state == ACTIVE_ALLOCATED)
    )
    reserved = _held(history, _RESERVED, sum(segment.size_bytes for segment in history.segments))
    peak_at = requested.index(max(requested))
    requests: Counter[Allocation] = Counter()
    operators: dict[Allocation, str] = {}
    live: dict[int, Allocation] = {}
    held: Counter[Allocation] = Counter()
    for number, event in enumerate(history.events, start=1):
        if event.action == "alloc":
            allocation = _allocation(event.frames, event.size_bytes, by_node)
            requests[allocation] += 1
            operators.setdefault(allocation, operator_of(event.frames))
            live[event.address] = allocation
        elif event.action == "free_requested":
            live.pop(event.address, None)
        if number == peak_at:
            held = Counter(live.values())
    return Side(max(requested), max(reserved), requests, held, operators)


def _held(history: DeviceHistory, signs: Mapping[str, int], at_end_bytes: int) -> list[int]:
    """The bytes before the first event and after each, by what actions do to them."""
    changes = [signs.get(event.action, 0) * event.size_bytes for event in history.events]
    return list(accumulate(changes, initial=at_end_bytes - sum(changes)))


def _allocation(frames: Frames, size_bytes: int, by_node: bool) -> Allocation:
    place = place_of(frames)
    if not by_node and is_node(place):
        place = BACKWARD
    function = users_function_of(frames) if place not in (BACKWARD, NOWHERE) else ""
    return Allocation(place, size_bytes, function)


def sides(first: DeviceHistory, second: DeviceHistory) -> tuple[Side, Side]:
    """Both sides, with autograd's nodes as places where both histories name them."""
    by_node = _names_nodes(first) and _names_nodes(second)
    return side_of(first, by_node=by_node), side_of(second, by_node=by_node)


def differences(
    first: Mapping[Allocation, int], second: Mapping[Allocation, int], operators: Mapping[Allocation, str]
) -> list[Difference]:
    """What the two have unequally often, the most bytes first."""
    found = [
        Difference(
            allocation, operators.get(allocation, ""), first.get(allocation, 0), second.get(allocation, 0)
        )
        for allocation in dict.fromkeys([*first, *second])
        if first.get(allocation, 0) != second.get(allocation, 0)
    ]
    return sorted(found, key=lambda difference: -abs(difference.bytes))


def _names_nodes(history: DeviceHistory) -> bool:
    distinct = {id(event.frames): event.frames for event in history.events}
    return any(is_node(place_of(frames)) for frames in distinct.values())


@dataclass(frozen=True, slots=True)
class Match:
    """Requests of one size that are at one place in the first history and at another in the second."""

    first: Allocation
    second: Allocation
    count: int
    how: str


def matched(
    first: Mapping[Allocation, int], second: Mapping[Allocation, int]
) -> tuple[list[Match], Mapping[Allocation, int], Mapping[Allocation, int]]:
    """Requests of one size at two places, of one function first; and what is then left of each history."""
    left, right = Counter(first), Counter(second)
    same = left & right
    left -= same
    right -= same
    matches = [
        *_pairs(left, right, _function_and_size, BY_FUNCTION),
        *_pairs(left, right, lambda one: one.size_bytes, BY_SIZE),
    ]
    return matches, +left, +right


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
