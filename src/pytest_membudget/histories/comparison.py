"""Compares two histories: requests that only one of them has, and what each holds at its peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..allocator.replay import Replay
from .places import BACKWARD, NOWHERE, is_node, operator_of, place_of, users_function_of
from .reading import Frames, Snapshot


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

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    requests: Mapping[Allocation, int]
    """How often each was requested."""
    held: Mapping[Allocation, int]
    """How many of each were held at the peak of what was allocated."""
    freed_before_bytes: int
    """How much of the memory from before the history was freed before the peak."""
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


def side_of(snapshot: Snapshot, *, by_node: bool) -> Side:
    """Play ``snapshot`` through the allocator's model; without ``by_node`` all of backward is one place."""
    replay, peak_bytes, peak_at = _played(snapshot)
    requests: Counter[Allocation] = Counter()
    operators: dict[Allocation, str] = {}
    live: dict[int, Allocation] = {}
    held: Counter[Allocation] = Counter()
    freed_bytes = freed_before_bytes = 0
    for number, (event, frames) in enumerate(zip(snapshot.history.events, snapshot.frames, strict=True)):
        if event.action == "alloc":
            place = _place(frames, by_node)
            function = users_function_of(frames) if place not in (BACKWARD, NOWHERE) else ""
            allocation = Allocation(place, event.size_bytes, function)
            requests[allocation] += 1
            operators.setdefault(allocation, operator_of(frames))
            live[event.address] = allocation
        elif event.action == "free_requested" and live.pop(event.address, None) is None:
            freed_bytes += event.size_bytes
        if number == peak_at:
            held, freed_before_bytes = Counter(live.values()), freed_bytes
    reserved_bytes = replay.allocator.peak_reserved_bytes
    return Side(peak_bytes, reserved_bytes, requests, held, freed_before_bytes, operators)


def _played(snapshot: Snapshot) -> tuple[Replay, int, int]:
    """The replay, the peak of what was allocated, and the number of the event that reached it."""
    events = snapshot.history.events
    replay = Replay(snapshot.history, None)
    peak_bytes, peak_at = replay.allocator.allocated_bytes, -1
    for number, (event, following) in enumerate(zip(events, (*events[1:], None), strict=True)):
        replay.play(event, following)
        if replay.allocator.allocated_bytes > peak_bytes:
            peak_bytes, peak_at = replay.allocator.allocated_bytes, number
    return replay, peak_bytes, peak_at


def _place(frames: Frames, by_node: bool) -> str:
    place = place_of(frames)
    return BACKWARD if not by_node and is_node(place) else place


def sides(first: Snapshot, second: Snapshot) -> tuple[Side, Side]:
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


def _names_nodes(snapshot: Snapshot) -> bool:
    distinct = {id(frames): frames for frames in snapshot.frames}
    return any(is_node(place_of(frames)) for frames in distinct.values())
