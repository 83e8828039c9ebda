"""The segments of a run: for whom each was reserved, what is free of them, and who splits that."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .record import Phase, Record

#: For whom memory was reserved before the first event of a history.
UNKNOWN: Final = Record(0, "", Phase.FORWARD)


@dataclass(slots=True, eq=False)
class Segment:
    """Reserved memory, from ``start`` up to ``end``; one mapping, where segments are expandable."""

    start: int
    end: int
    birth: int
    asked: Record = UNKNOWN
    """The storage for which it was reserved."""
    death: int | None = None


@dataclass(frozen=True, slots=True)
class Cached:
    """What is free of one segment at some moment."""

    size_bytes: int
    asked: Record
    largest: Record | None
    """Who lives in it, the largest; None where nobody does."""


class Segments:
    """The segments of a run. Moments are those of the ledger."""

    def __init__(self) -> None:
        self._all: list[Segment] = []
        self._held: list[Segment] = []
        self._asking: list[Segment] = []

    def reserve(self, start: int, end: int, now: int) -> None:
        """Memory was reserved, for the storage that is born next."""
        self._hold(Segment(start, end, now))
        self._asking.append(self._held[-1])

    def asked_by(self, record: Record) -> None:
        """What was reserved since the last call was for ``record``."""
        for segment in self._asking:
            segment.asked = record
        self._asking.clear()

    def release(self, start: int, end: int, now: int) -> None:
        """Memory was given back; of an expandable segment perhaps some of what was mapped at once."""
        touched = [one for one in self._held if one.start < end and start < one.end]
        for segment in touched:
            self._held.remove(segment)
            for left, right in ((segment.start, start), (end, segment.end)):
                if left < right:
                    self._hold(replace(segment, start=left, end=right))
            segment.start, segment.end = max(segment.start, start), min(segment.end, end)
            segment.death = now

    def cached_at(self, moment: int, alive: Iterable[Record]) -> Iterator[Cached]:
        """What was free at ``moment``, when ``alive`` were the storages."""
        blocks = sorted(alive, key=lambda record: record.address)
        for segment in self._all:
            if segment.birth <= moment and (segment.death is None or segment.death > moment):
                inside = _inside(segment, blocks)
                used = sum(
                    min(one.address + one.block_bytes, segment.end) - max(one.address, segment.start)
                    for one in inside
                )
                if segment.end - segment.start > used:
                    largest = max(inside, key=lambda one: one.block_bytes, default=None)
                    yield Cached(segment.end - segment.start - used, segment.asked, largest)

    def _hold(self, segment: Segment) -> None:
        self._held.append(segment)
        self._all.append(segment)


def _inside(segment: Segment, blocks: Sequence[Record]) -> Sequence[Record]:
    """Those of ``blocks``, by address, that lie in ``segment`` or reach into it."""
    first = bisect_left(blocks, segment.start, key=lambda record: record.address)
    before = blocks[first - 1] if first else None
    if before is not None and before.address + before.block_bytes > segment.start:
        first -= 1
    return blocks[first : bisect_left(blocks, segment.end, key=lambda record: record.address)]
