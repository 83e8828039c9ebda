"""Makes the timeline of a run: memory by component at a few hundred moments."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate, groupby

from .. import components
from ..memory_report import Timeline
from .ledger import Ledger
from .record import Phase, Record

#: Most points of a timeline: about a chart's width; report.json has a timeline for each estimate.
MOST_POINTS = 400
#: Most phases: a chart with more would be unreadable.
_MOST_PHASES = 40
#: The first tolerance if not all points fit: less than a pixel of a chart's height.
_FINEST = 2000
#: Bisections between a tolerance that is too small and one that is large enough.
_REFINEMENTS = 3

_KINDS = components.TENSOR_COMPONENTS
_NUMBER_OF = {name: number for number, name in enumerate(_KINDS)}
_PHASES = ("", *(phase.value for phase in Phase))
_PHASE_NUMBERS = {Phase(value): number for number, value in enumerate(_PHASES) if number}
#: recomputation inside a backward belongs to it
_PHASE_NUMBERS[Phase.RECOMPUTE] = _PHASE_NUMBERS[Phase.BACKWARD]


class Lives:
    """Births and deaths of the storages of ``ledger``, from here on: the change at each moment.

    Arrays of plain numbers: records kept for each would make the garbage collector run more often.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.on_death.append(self._add)
        #: by moment: the component's number, its change in bytes, and the phase of a birth
        self._kinds = bytearray()
        self._bytes = array("q")
        self._phases = bytearray()
        #: copies that have died: what they are of may be trained later
        self._copies: list[Record] = []

    def timeline(self, peak_at: int) -> Timeline | None:
        """The timeline so far, with ``peak_at`` among its points. None if nothing was allocated.

        It has at most ``MOST_POINTS`` points, and is exact if so many are enough.
        """
        if peak_at < 0:
            return None
        self._enter_all()
        starts, within_bytes = self._closest(peak_at)
        values = list(self._values_at(self._shown(starts, peak_at)))
        named = {name: tuple(row[number] for row in values) for name, number in _NUMBER_OF.items()}
        held = {name: sizes for name, sizes in named.items() if any(sizes)}
        return Timeline(tuple(starts), held, peak_at, within_bytes, self._phase_changes())

    def most_at_once(self) -> dict[int, int]:
        """By size in bytes, how many storages of that size were alive at once, at the most."""
        self._enter_all()
        alive: dict[int, int] = {}
        most: dict[int, int] = {}
        for change in self._bytes:
            size = abs(change)
            alive[size] = alive.get(size, 0) + (1 if change > 0 else -1)
            most[size] = max(most.get(size, 0), alive[size])
        most.pop(0, None)
        return most

    def _enter_all(self) -> None:
        self._extend()
        for record in (*self._ledger.live.values(), *self._copies):
            self._enter(record)

    def _add(self, record: Record) -> None:
        self._extend()
        self._enter(record)
        if record.computed_from is not None:
            self._copies.append(record)

    def _enter(self, record: Record) -> None:
        """Note the birth of ``record``, and its death if it has died."""
        kind = _NUMBER_OF[self._ledger.component_of(record)]
        self._phases[record.birth] = _PHASE_NUMBERS[record.phase]
        self._kinds[record.birth], self._bytes[record.birth] = kind, record.requested_bytes
        if record.death is not None:
            self._kinds[record.death], self._bytes[record.death] = kind, -record.requested_bytes

    def _extend(self) -> None:
        """Make room for the moments up to the present one."""
        missing = self._ledger.now + 1 - len(self._bytes)
        self._kinds.extend(bytes(missing))
        self._phases.extend(bytes(missing))
        self._bytes.frombytes(bytes(self._bytes.itemsize * missing))

    def _phase_changes(self) -> tuple[tuple[int, str], ...]:
        """The beginnings of the phases; empty if they are too many to be shown."""
        known = ((moment, phase) for moment, phase in enumerate(self._phases) if phase)
        changes = tuple(
            (next(group)[0], _PHASES[phase]) for phase, group in groupby(known, key=lambda entry: entry[1])
        )
        return changes if len(changes) <= _MOST_PHASES else ()

    def _closest(self, peak_at: int) -> tuple[list[int], int]:
        """The beginnings of stretches, and the tolerance inside of them, close to the smallest possible."""
        starts = self._starts(peak_at, 0)
        too_little, within_bytes, most_bytes = 0, 0, max(accumulate(self._bytes, initial=0))
        while starts is None:
            too_little, within_bytes = within_bytes, within_bytes * 2 or 1 + most_bytes // _FINEST
            starts = self._starts(peak_at, within_bytes)
        for _ in range(_REFINEMENTS if within_bytes else 0):
            middle = (too_little + within_bytes) // 2
            finer = self._starts(peak_at, middle)
            if finer is None:
                too_little = middle
            else:
                starts, within_bytes = finer, middle
        return starts, within_bytes

    def _starts(self, peak_at: int, within_bytes: int) -> list[int] | None:
        """The beginnings of stretches in which no component varies by more; None if they are too many."""
        values, low, high = ([0] * len(_KINDS) for _ in range(3))
        starts = [0]
        for moment, (kind, change) in enumerate(zip(self._kinds, self._bytes, strict=True)):
            if not change:
                continue
            value = values[kind] = values[kind] + change
            if value < low[kind]:
                low[kind] = value
            elif value > high[kind]:
                high[kind] = value
            if high[kind] - low[kind] > within_bytes or moment == peak_at:
                starts.append(moment)
                low, high = values[:], values[:]
                if len(starts) >= MOST_POINTS:
                    return None
        last = len(self._bytes) - 1
        if starts[-1] != last:
            starts.append(last)
        return starts

    def _shown(self, starts: list[int], peak_at: int) -> list[int]:
        """The moment of each stretch with the largest total; the peak for its stretch."""
        shown = []
        total = 0
        for start, end in zip(starts, [*starts[1:], len(self._bytes)], strict=True):
            best, most = start, -1
            for moment in range(start, end):
                total += self._bytes[moment]
                if total > most and (start != peak_at or moment == start):
                    best, most = moment, total
            shown.append(best)
        return shown

    def _values_at(self, moments: list[int]) -> Iterator[list[int]]:
        values = [0] * len(_KINDS)
        done = 0
        for moment in moments:
            for at in range(done, moment + 1):
                values[self._kinds[at]] += self._bytes[at]
            done = moment + 1
            yield values[:]
