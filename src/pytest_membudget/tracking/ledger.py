"""Ledgers of device and host: the live storages over time, those alive at each peak, and their components."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import components
from ..allocator.caching import CachingAllocator
from .record import Phase, Record


@dataclass(slots=True, eq=False)
class Peak:
    """The moment at which one total was largest, and the storages alive then that have died since."""

    at: int = -1
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    died_since: list[Record] = field(default_factory=list)

    def move(self, at: int, allocator: CachingAllocator) -> None:
        """A new peak: storages that died before it no longer count."""
        self.at = at
        self.allocated_bytes, self.reserved_bytes = allocator.allocated_bytes, allocator.reserved_bytes
        self.died_since.clear()


class Clock:
    """Counts births, deaths and marks of a rank; the ledgers of its device and its host share one.

    A mark is the begin of a backward, or of the part of one that follows a recomputation: what the forward
    saved is used from there on.
    """

    def __init__(self) -> None:
        self.now = 0
        self.marks: list[int] = []
        self.root_call_ends: dict[int, int] = {}


class Ledger:
    """Allocates and frees in the allocator's model, and keeps the storages alive at the peaks.

    A storage may die at any line: in another thread, or as cyclic garbage is collected while a block is being
    allocated. Its block is freed when the allocator is not in use.
    """

    def __init__(self, allocator: CachingAllocator, clock: Clock | None = None) -> None:
        self.allocator = allocator
        self.clock = clock or Clock()
        self.live: dict[int, Record] = {}
        #: of allocated memory, the peak of each phase; recomputation belongs to its backward
        self.phase_peaks = {phase: Peak() for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)}
        self.reserved_peak = Peak()
        self._peaks = (*self.phase_peaks.values(), self.reserved_peak)
        #: kept here: ``torch.cuda.reset_peak_memory_stats`` in a test resets the allocator's own
        self.peak_active_bytes = 0
        self.births = 0
        #: called with every record that has ended
        self.on_death: list[Callable[[Record], None]] = []
        self._turn = threading.RLock()
        #: held while a thread allocates or frees; deaths are queued meanwhile
        self._busy = False
        self._dead: deque[Record] = deque()

    @property
    def allocated_peak(self) -> Peak:
        """The moment at which most was allocated, the first of several."""
        return max(self.phase_peaks.values(), key=lambda peak: (peak.allocated_bytes, -peak.at))

    def born(self, key: int, record: Record, stream: int = 0) -> None:
        """Record a new storage of ``record.requested_bytes`` under ``key``.

        Raises the allocator's ``OutOfMemory`` if the device is full; nothing is recorded then.
        """
        try:
            with self._turn:
                was_busy, self._busy = self._busy, True  # finalizers may allocate
                try:
                    self._bear(key, record, stream)
                finally:
                    self._busy = was_busy
        finally:
            self._free_dead()

    def _bear(self, key: int, record: Record, stream: int) -> None:
        record.block = self.allocator.allocate(record.requested_bytes, stream)
        self.clock.now += 1
        self.births += 1
        record.birth = self.clock.now
        self.live[key] = record
        allocator = self.allocator
        phase = Phase.BACKWARD if record.phase is Phase.RECOMPUTE else record.phase
        peak = self.phase_peaks[phase]
        if allocator.allocated_bytes > peak.allocated_bytes:
            peak.move(self.clock.now, allocator)
        self.peak_active_bytes = max(self.peak_active_bytes, allocator.active_bytes)
        if allocator.reserved_bytes > self.reserved_peak.reserved_bytes:
            self.reserved_peak.move(self.clock.now, allocator)

    def died(self, key: int) -> None:
        """Record that the storage under ``key`` is gone."""
        self._dead.append(self.live.pop(key))
        self._free_dead()

    def _free_dead(self) -> None:
        """Free the blocks of queued deaths; if the allocator is in use, its user will do so."""
        while self._dead and not self._busy and self._turn.acquire(blocking=False):
            try:
                if self._busy:  # it was in use by another thread before, or by this one, in a finalizer
                    return
                self._busy = True
                try:
                    while self._dead:
                        self._end(self._dead.popleft())
                finally:
                    self._busy = False
            finally:
                self._turn.release()

    def _end(self, record: Record) -> None:
        self.allocator.free(record.block)
        self.clock.now += 1
        record.death = self.clock.now
        record.block = None
        for peak in self._peaks:
            if record.birth <= peak.at:
                peak.died_since.append(record)
        for call in self.on_death:
            call(record)

    def mark(self) -> None:
        """Record that the forward's saved tensors are used from here on."""
        self.clock.now += 1
        self.clock.marks.append(self.clock.now)

    def end_root_call(self, number: int) -> None:
        """Record that the outermost module call ``number`` has returned."""
        self.clock.now += 1
        self.clock.root_call_ends[number] = self.clock.now

    def alive_at(self, peak: Peak) -> Iterator[Record]:
        """The storages that were alive at ``peak``."""
        yield from peak.died_since
        for record in self.live.values():
            if record.birth <= peak.at:
                yield record

    def component_of(self, record: Record) -> str:
        """The component that ``record`` belongs to.

        A recorded role (parameter, gradient, optimizer state, ...) decides. Without one, a storage that the
        forward made is an activation if it was still alive when a backward began, or when the outermost
        module call that made it returned; else it is a temporary. A parameter that no gradient reached and
        no optimizer holds, in a test that trains, is a frozen one: a teacher run under ``no_grad``.
        What is made of gradients for the optimizer's step is a temporary. A copy of a parameter or a
        buffer is one too, and has no gradient.
        """
        is_parameter = record.role == components.PARAMETERS
        if is_parameter and not record.trained and _outlived_next_mark(record, self.clock.marks[:1]):
            return components.FROZEN_PARAMETERS
        if record.role is not None:
            return record.role
        kept = record.copied.role if record.copied is not None else None
        if kept == components.BUFFERS:
            return kept
        if kept in (components.PARAMETERS, components.FROZEN_PARAMETERS):
            return components.FROZEN_PARAMETERS if self.clock.marks else components.PARAMETERS
        if record.phase in (Phase.FORWARD, Phase.RECOMPUTE) and not record.for_update:
            if record.from_inputs:
                return components.INPUTS
            if self._outlived_its_forward(record):
                return components.ACTIVATIONS
        return components.COLLECTIVES if record.collective else components.TEMPORARIES

    def _outlived_its_forward(self, record: Record) -> bool:
        if _outlived_next_mark(record, self.clock.marks):
            return True
        if record.root_call is None:
            return False
        # a call without an end did not return: an error may have ended it
        end = self.clock.root_call_ends.get(record.root_call, self.clock.now)
        return record.death is None or record.death > end


def _outlived_next_mark(record: Record, marks: list[int]) -> bool:
    index = bisect_left(marks, record.birth)
    return index < len(marks) and (record.death is None or record.death > marks[index])


@dataclass(slots=True, eq=False)
class HostBlock:
    """The host memory of one storage."""

    size_bytes: int
    is_pinned: bool


class HostAllocator:
    """Pageable memory as requested; pinned memory in powers of two, cached when it is freed.

    ``CachingHostAllocatorImpl::allocate`` and ``free`` (aten/src/ATen/core/CachingHostAllocator.h, 2.13).
    Pageable memory is allocated and freed by malloc, whose own cache is not modelled.
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        #: whether the next blocks are pinned
        self.pins = False
        self._kept: Counter[int] = Counter()

    @property
    def active_bytes(self) -> int:
        """The same as allocated: nothing waits for a stream."""
        return self.allocated_bytes

    def allocate(self, size_bytes: int, stream: int = 0) -> HostBlock:
        """A block for ``size_bytes``."""
        size = 1 << (size_bytes - 1).bit_length() if self.pins else size_bytes
        if self.pins and self._kept[size]:
            self._kept[size] -= 1
        else:
            self.reserved_bytes += size
        self.allocated_bytes += size
        return HostBlock(size, self.pins)

    def free(self, block: HostBlock) -> None:
        """Free a block."""
        self.allocated_bytes -= block.size_bytes
        if block.is_pinned:
            self._kept[block.size_bytes] += 1
        else:
            self.reserved_bytes -= block.size_bytes


class HostLedger(Ledger):
    """The ledger of host storages, with the clock of the device's."""

    allocator: Any

    def __init__(self, device: Ledger) -> None:
        super().__init__(HostAllocator(), device.clock)  # type: ignore[arg-type] # as far as a ledger uses it

    def pinned(self, key: int) -> None:
        """Record that the storage under ``key`` has pinned memory."""
        record = self.live.get(key)
        if record is None or record.block.is_pinned:
            return
        self.allocator.free(record.block)
        del self.live[key]
        birth = record.birth
        self.allocator.pins = True
        self.born(key, record)
        self.allocator.pins = False
        record.birth = birth  # the same storage: without rounding, the peak keeps its time
