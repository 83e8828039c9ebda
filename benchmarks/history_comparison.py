"""Compares two histories: what each holds at its peak, and the requests that only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from pytest_membudget.allocator.history import ACTIVE_ALLOCATED, DeviceHistory, Frames
from pytest_membudget.tracking.places import BACKWARD

from .history_places import is_node, operator_of, place_of

#: What actions add to the memory that is requested and to what is reserved.
_REQUESTED: Final = {"alloc": 1, "free_requested": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


@dataclass(frozen=True, slots=True)
class Allocation:
    """Requests of one size at one place."""

    place: str
    size_bytes: int


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
    return Allocation(place, size_bytes)


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
