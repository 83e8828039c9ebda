"""What an allocator did during a piece of work, by phases: requests in order, and peaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event of an allocator's history: ``alloc`` or ``free_completed``, in requested bytes."""

    action: str
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a piece of work: of an operator's sample its forward, or its backward."""

    requests_bytes: tuple[int, ...]
    """What was requested of the allocator, in order."""
    peak_bytes: int
    """How much more was requested and alive at once than at the phase's start."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        return {"requests_bytes": list(self.requests_bytes), "peak_bytes": self.peak_bytes}

    @classmethod
    def from_json(cls, data: Any) -> Phase:
        """The inverse of ``to_json``."""
        return cls(tuple(data["requests_bytes"]), data["peak_bytes"])


def phases_of(events: Iterable[Event], marks: Sequence[int]) -> list[Phase]:
    """The phases that ``marks`` separates: each is a number of allocations that were made before it.

    What comes before the first mark belongs to no phase. A phase's frees that follow its last allocation
    count for the next one, which changes no peak.
    """
    phases: list[_Open] = []
    made = live_bytes = 0
    sizes_bytes: dict[int, int] = {}
    for event in events:
        if event.action == "alloc":
            while len(phases) < len(marks) and made >= marks[len(phases)]:
                phases.append(_Open(live_bytes))
            made += 1
            live_bytes += event.size_bytes
            sizes_bytes[event.address] = event.size_bytes
            if phases:
                phases[-1].request(event.size_bytes, live_bytes)
        elif event.action == "free_completed":
            live_bytes -= sizes_bytes.pop(event.address, 0)
    phases += [_Open(live_bytes) for _ in range(len(marks) - len(phases))]
    return [phase.closed() for phase in phases]


class _Open:
    def __init__(self, start_bytes: int) -> None:
        self._start_bytes = self._peak_bytes = start_bytes
        self._requests_bytes: list[int] = []

    def request(self, size_bytes: int, live_bytes: int) -> None:
        self._requests_bytes.append(size_bytes)
        self._peak_bytes = max(self._peak_bytes, live_bytes)

    def closed(self) -> Phase:
        return Phase(tuple(self._requests_bytes), self._peak_bytes - self._start_bytes)
