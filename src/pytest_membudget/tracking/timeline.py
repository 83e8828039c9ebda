"""Makes the timeline of a run: memory by component at a few hundred moments."""

from array import array
from collections.abc import Iterator
from itertools import groupby, pairwise

from .. import components
from ..memory_report import Timeline
from .ledger import Ledger
from .record import Phase, Record

#: Most points of a timeline: about a chart's width; report.json has a timeline for each estimate.
MOST_POINTS = 400
#: Most phases: a chart with more would be unreadable.
_MOST_PHASES = 40

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

        It has at most ``MOST_POINTS`` points: every moment, if so many are enough.
        """
        if peak_at < 0:
            return None
        self._enter_all()
        starts = self._starts(peak_at)
        values = list(self._fullest(starts, peak_at))
        named = {name: tuple(row[number] for row in values) for name, number in _NUMBER_OF.items()}
        held = {name: sizes for name, sizes in named.items() if any(sizes)}
        return Timeline(tuple(starts), held, peak_at, self._phase_changes())

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

    def _starts(self, peak_at: int) -> list[int]:
        """The beginnings of stretches of one length; the peak begins another, and so does the last moment."""
        count = len(self._bytes)
        return sorted({*range(0, count, -(-count // (MOST_POINTS - 2))), peak_at, count - 1})

    def _fullest(self, starts: list[int], peak_at: int) -> Iterator[list[int]]:
        """What each component held at the fullest moment of each stretch; at the peak in the peak's."""
        held, total = [0] * len(_KINDS), 0
        for start, end in pairwise([*starts, len(self._bytes)]):
            most = -1
            for moment in range(start, end):
                held[self._kinds[moment]] += self._bytes[moment]
                total += self._bytes[moment]
                if total > most and (start != peak_at or moment == start):
                    most, fullest = total, held[:]
            yield fullest
