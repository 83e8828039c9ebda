"""Ledgers of device and host: live storages over time, those alive at peaks and ends, their components."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from .. import components
from .cached import Cached, Segments
from .record import Line, Phase, Record


class StepKind(Enum):
    """What ends a step, the surest sign first."""

    OPTIMIZER = "optimizer"
    BACKWARD = "backward"
    CALL = "call"


class Moment(NamedTuple):
    """The storages that were alive at a moment, and what their blocks came to."""

    alive: tuple[Record, ...] = ()
    allocated_bytes: int = 0


#: A test may call thousands of single layers: the steps of so many optimizers or models are kept.
_MOST: Final = 8


class StepEnds:
    """What was held at the last two ends of a step, for each optimizer, backward or model that ends any.

    Two steps of different models hold different things: a step is compared with one of the same.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[StepKind, object], list[Moment]] = {}

    def add(self, kind: StepKind, of: object, now: Moment) -> None:
        """A step of ``of`` has ended."""
        known = self._ends.pop((kind, of), [])
        self._ends[kind, of] = [*known[-1:], now]
        if len(self._ends) > _MOST:
            del self._ends[next(iter(self._ends))]

    def last_two(self) -> tuple[Moment, Moment] | None:
        """The last step and the one before it, by the surest sign there was; None where none was repeated."""
        for kind in StepKind:
            of_kind = [ends for (one, _), ends in self._ends.items() if one is kind]
            if of_kind:
                return next(((ends[1], ends[0]) for ends in reversed(of_kind) if len(ends) == 2), None)
        return None


@dataclass(slots=True, eq=False)
class Peak:
    """The moment at which one total was largest, and the storages alive then that have died since."""

    at: int = -1
    allocated_bytes: int = 0
    reserved_bytes: int = 0
    died_since: list[Record] = field(default_factory=list)

    def move(self, at: int, allocated_bytes: int, reserved_bytes: int) -> None:
        """A new peak: storages that died before it no longer count."""
        self.at = at
        self.allocated_bytes, self.reserved_bytes = allocated_bytes, reserved_bytes
        self.died_since.clear()


class Ledger:
    """Counts what is allocated and reserved, and keeps the storages alive at the peaks.

    Time is counted in births, deaths and marks. A mark is the begin of a backward, or of the part of one that
    follows a recomputation: what the forward saved is used from there on.
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.segments = Segments()
        self.now = 0
        self.marks: list[int] = []
        self.backward_ends: list[int] = []
        self.root_call_ends: dict[int, int] = {}
        self._callers: dict[tuple[str | None, int], set[Line]] = defaultdict(set)
        self.live: dict[int, Record] = {}
        self.step_ends = StepEnds()
        #: how often lines allocated in forwards, and again in backwards: if again, module, line and operator
        self.runs: Counter[tuple[bool, str | None, Line, str]] = Counter()
        #: what was held when the test's body had ended; None where that was not seen
        self.body_end: Moment | None = None
        #: of allocated memory, the peak of each phase; recomputation belongs to its backward
        self.phase_peaks = {phase: Peak() for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)}
        self.reserved_peak = Peak()
        #: whether memory was reserved for a block, more than ever, that is still to be born
        self._reserved_for_next = False
        self._peaks = (*self.phase_peaks.values(), self.reserved_peak)
        #: called with every record that has ended
        self.on_death: list[Callable[[Record], None]] = []

    @property
    def allocated_peak(self) -> Peak:
        """The moment at which most was allocated, the first of several."""
        return max(self.phase_peaks.values(), key=lambda peak: (peak.allocated_bytes, -peak.at))

    def born(self, key: int, record: Record) -> None:
        """Record a new storage of ``record.block_bytes`` under ``key``."""
        self.allocated_bytes += record.block_bytes
        self.now += 1
        record.birth = self.now
        self.live[key] = record
        if record.caller is not None:
            record.callers = callers = self._callers[record.file, record.line]
            callers.add(record.caller)
        self.segments.asked_by(record)
        phase = Phase.BACKWARD if record.phase is Phase.RECOMPUTE else record.phase
        peak = self.phase_peaks[phase]
        if self.allocated_bytes > peak.allocated_bytes:
            self._move(peak)
        if self._reserved_for_next:
            self._move(self.reserved_peak)
            self._reserved_for_next = False

    def died(self, key: int) -> None:
        """Record that the storage under ``key`` is gone."""
        record = self.live.pop(key)
        self.allocated_bytes -= record.block_bytes
        self.now += 1
        record.death = self.now
        for peak in self._peaks:
            if record.birth <= peak.at:
                peak.died_since.append(record)
        for call in self.on_death:
            call(record)

    def resize(self, key: int, block_bytes: int) -> None:
        """Record that the block under ``key``, if it is alive, has had another size all along."""
        record = self.live.get(key)
        if record is not None:
            self.allocated_bytes += block_bytes - record.block_bytes
            record.block_bytes = block_bytes

    def reserve(self, start: int, size_bytes: int) -> None:
        """Record that memory was reserved at ``start``, or with a negative size given back."""
        if size_bytes < 0:
            self.segments.release(start, start - size_bytes, self.now)
        else:
            self.segments.reserve(start, start + size_bytes, self.now)
        self._reserve(size_bytes)

    def _reserve(self, size_bytes: int) -> None:
        self.reserved_bytes += size_bytes
        if self.reserved_bytes > self.reserved_peak.reserved_bytes:
            self._move(self.reserved_peak)
            self._reserved_for_next = True

    def _move(self, peak: Peak) -> None:
        peak.move(self.now, self.allocated_bytes, self.reserved_bytes)

    def mark(self) -> None:
        """Record that the forward's saved tensors are used from here on."""
        self.now += 1
        self.marks.append(self.now)

    def end_backward(self) -> None:
        """Record that a backward has ended, and has released what its graph alone held."""
        self.now += 1
        self.backward_ends.append(self.now)

    def end_root_call(self, number: int) -> None:
        """Record that the outermost module call ``number`` has returned."""
        self.now += 1
        self.root_call_ends[number] = self.now

    def end_step(self, kind: StepKind, of: object) -> None:
        """Record that a step of ``of``, an optimizer or a model, has ended."""
        self.step_ends.add(kind, of, Moment(tuple(self.live.values()), self.allocated_bytes))

    def end_body(self, allocated_bytes: int) -> None:
        """Record that the body has ended, and its fixtures have not; ``allocated_bytes``: as PyTorch says."""
        self.body_end = Moment(tuple(self.live.values()), allocated_bytes)

    def alive_at(self, peak: Peak) -> Iterator[Record]:
        """The storages that were alive at ``peak``."""
        yield from peak.died_since
        for record in self.live.values():
            if record.birth <= peak.at:
                yield record

    def cached_at(self, peak: Peak) -> Iterator[Cached]:
        """What was free of each segment at ``peak``."""
        return self.segments.cached_at(peak.at, self.alive_at(peak))

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
        if is_parameter and not record.trained and _outlived_next(record, self.marks[:1]):
            return components.FROZEN_PARAMETERS
        if record.role is not None:
            return record.role
        is_forwards = record.phase in (Phase.FORWARD, Phase.RECOMPUTE)
        source = record.computed_from
        if source is not None and is_forwards and not record.collective and self._is_kept(record):
            return self._component_of_copy(record, self.component_of(source))
        if is_forwards and not record.for_update:
            if record.from_inputs and source is None:
                return components.INPUTS
            if self._outlived_its_forward(record):
                return components.ACTIVATIONS
        return components.COLLECTIVES if record.collective else components.TEMPORARIES

    def _is_kept(self, record: Record) -> bool:
        """Whether what was computed from parameters is more than a temporary.

        Outside of modules a copy is one for itself: an average of the weights, a snapshot.
        """
        if record.root_call is not None or _outlived_next(record, self.marks):
            return self._outlived_its_forward(record)
        is_used_later = record.death is None or _outlived_next(record, [*self.root_call_ends.values()])
        return record.is_copy or is_used_later

    def _component_of_copy(self, record: Record, of_source: str) -> str:
        """The component of what was computed from storages of ``of_source``.

        What a module made, or a backward has released, was used in place of the parameter. All else is a
        copy for itself, which no gradient reaches.
        """
        is_apart = record.root_call is None and not _is_released_by_backward(record, self)
        if of_source == components.PARAMETERS and self.marks and is_apart:
            return components.FROZEN_PARAMETERS
        return of_source

    def _outlived_its_forward(self, record: Record) -> bool:
        if _outlived_next(record, self.marks):
            return True
        if record.root_call is None:
            return False
        # a call without an end did not return: an error may have ended it
        end = self.root_call_ends.get(record.root_call, self.now)
        return record.death is None or record.death > end


def _next(moments: list[int], moment: int) -> int | None:
    """The first of ``moments``, which rise, from ``moment`` on."""
    index = bisect_left(moments, moment)
    return moments[index] if index < len(moments) else None


def _outlived_next(record: Record, moments: list[int]) -> bool:
    after = _next(moments, record.birth)
    return after is not None and (record.death is None or record.death > after)


def _is_released_by_backward(record: Record, ledger: Ledger) -> bool:
    """Whether it died in the first backward after its birth."""
    begin = _next(ledger.marks, record.birth)
    if begin is None or record.death is None or record.death < begin:
        return False
    end = _next(ledger.backward_ends, begin)
    return end is None or record.death <= end


class HostLedger(Ledger):
    """The ledger of host storages: what is allocated is reserved of the system, which keeps none."""

    def born(self, key: int, record: Record) -> None:
        """Record a new storage, whose block is as it was asked for."""
        record.block_bytes = record.requested_bytes
        self._reserve(record.block_bytes)
        super().born(key, record)

    def died(self, key: int) -> None:
        """Record that the storage under ``key`` is gone."""
        self._reserve(-self.live[key].block_bytes)
        super().died(key)
