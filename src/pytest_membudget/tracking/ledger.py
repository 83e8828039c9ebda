"""The live storages over time, and who was alive at each metric's peak."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..allocator import CachingAllocator
from .record import Record


@dataclass(frozen=True, slots=True)
class Totals:
    """The allocator's totals at one moment, in bytes, as ``torch.cuda.memory_stats`` means them."""

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int


class Peak:
    """The moment at which one total was largest, and the storages that were alive then.

    Only those are kept: the live ones born before the peak, and the ones that have died since.
    """

    __slots__ = ("at", "died_since", "totals")

    def __init__(self) -> None:
        self.at = -1
        self.totals = Totals(0, 0, 0)
        self.died_since: list[Record] = []

    def move(self, at: int, totals: Totals) -> None:
        """A new peak: whoever died before it does not count any more."""
        self.at = at
        self.totals = totals
        self.died_since.clear()


class Ledger:
    """Feeds births and deaths to the allocator's model and keeps who was alive at the peaks.

    ``clock`` counts births, deaths and marks. A mark is a moment at which what the forward left over is
    taken up: a backward begins, or a recomputation hands on to its backward.

    A storage may die at any line: in another thread, or as cyclic garbage is collected while a block is being
    found for another one. Its block is given back when nobody is at the allocator.
    """

    def __init__(self, allocator: CachingAllocator) -> None:
        self.allocator = allocator
        self.clock = 0
        self.live: dict[int, Record] = {}
        self.marks: list[int] = []
        self.root_call_ends: dict[int, int] = {}
        self.allocated_peak = Peak()
        self.reserved_peak = Peak()
        #: kept here: ``torch.cuda.reset_peak_memory_stats`` in a test resets the allocator's own
        self.peak_active_bytes = 0
        self.births = 0
        #: told of every record that has ended
        self.on_death: Callable[[Record], None] | None = None
        self._turn = threading.RLock()
        #: a birth or a death is under way, of whoever has the turn: a death within it has to wait
        self._busy = False
        self._dead: deque[Record] = deque()

    def born(self, key: int, record: Record, stream: int = 0) -> None:
        """A storage of ``record.requested_bytes`` now exists under ``key``.

        Raises the allocator's ``OutOfMemory`` where the device is full; nothing is recorded then.
        """
        try:
            with self._turn:
                was_busy, self._busy = self._busy, True  # finalizers may allocate
                try:
                    self._bear(key, record, stream)
                finally:
                    self._busy = was_busy
        finally:
            self._bury()

    def _bear(self, key: int, record: Record, stream: int) -> None:
        record.block = self.allocator.allocate(record.requested_bytes, stream)
        self.clock += 1
        self.births += 1
        record.birth = self.clock
        self.live[key] = record
        allocator = self.allocator
        if allocator.allocated_bytes > self.allocated_peak.totals.allocated_bytes:
            self.allocated_peak.move(self.clock, self._totals())
        self.peak_active_bytes = max(self.peak_active_bytes, allocator.active_bytes)
        if allocator.reserved_bytes > self.reserved_peak.totals.reserved_bytes:
            self.reserved_peak.move(self.clock, self._totals())

    def died(self, key: int) -> None:
        """The storage under ``key`` is gone."""
        self._dead.append(self.live.pop(key))
        self._bury()

    def _bury(self) -> None:
        """Take the dead out, unless somebody is at the allocator, who then does it."""
        while self._dead and not self._busy and self._turn.acquire(blocking=False):
            try:
                self._end_all()
            finally:
                self._turn.release()

    def _end_all(self) -> None:
        if self._busy:  # another thread was, until this one had its turn; or this one, in a finalizer
            return
        self._busy = True
        try:
            while self._dead:
                self._end(self._dead.popleft())
        finally:
            self._busy = False

    def _end(self, record: Record) -> None:
        self.allocator.free(record.block)
        self.clock += 1
        record.death = self.clock
        record.block = None
        for peak in (self.allocated_peak, self.reserved_peak):
            if record.birth <= peak.at:
                peak.died_since.append(record)
        if self.on_death is not None:
            self.on_death(record)

    def mark(self) -> None:
        """What the forward left over is taken up from here on."""
        self.clock += 1
        self.marks.append(self.clock)

    def end_root_call(self, number: int) -> None:
        """The outermost module call ``number`` has returned."""
        self.clock += 1
        self.root_call_ends[number] = self.clock

    def alive_at(self, peak: Peak) -> Iterator[Record]:
        """The storages that were alive at ``peak``."""
        yield from peak.died_since
        for record in self.live.values():
            if record.birth <= peak.at:
                yield record

    def _totals(self) -> Totals:
        allocator = self.allocator
        return Totals(allocator.requested_bytes, allocator.allocated_bytes, allocator.reserved_bytes)
