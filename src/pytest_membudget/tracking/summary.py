"""Makes the MemoryReport of a ledger: components, totals and holders at the peak."""

import linecache
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from .. import components
from ..allocator.block_map import SMALL_BYTES
from ..caveats import HOW, Caveat
from ..memory_report import MOST_HOLDERS, HeldMemory, Holder, MemoryReport, PhasePeak, module_pattern
from ..units import MIB
from .cached import Cached
from .ledger import HostLedger, Ledger, Moment, Peak
from .record import Line, Phase, Record
from .running_code.source import shown_path
from .timeline import Lives

#: Most characters of a source line that are kept; fewer identify it.
_LINE_LENGTH = 200

#: Less host memory is not reported: step counters, token ids, masks.
OF_NOTE_BYTES = MIB
_ONLY_TENSORS = Caveat(
    HOW, "host memory is that of tensors: memory of Python, torch and the driver is not included"
)


class _Group(NamedTuple):
    component: str
    module: str | None
    location: str | None
    operator: str
    caller: str | None = None
    split_by: str | None = None


def memory_report(
    ledger: Ledger,
    *,
    metric: str,
    context_bytes: int,
    nccl_bytes: int = 0,
    root: str,
    caveats: Iterable[Caveat] = (),
    seconds: float = 0.0,
    rank: int = 0,
    host: MemoryReport | None = None,
    kind: str = "traced",
    device: str = "",
    peaks: Mapping[str, int] | None = None,
    lives: Lives | None = None,
) -> MemoryReport:
    """The report of one rank: the peak of ``metric`` and the storages alive then.

    ``context_bytes`` and ``nccl_bytes``: what the CUDA context and NCCL take outside the allocator;
    ``host``: the rank's host memory; ``root``: the folder that paths are shown relative to. ``peaks``:
    measured by the device, and reported in place of the ledger's: the difference is ``unattributed``.
    ``lives``: of the ledger's storages, for a timeline.
    """
    peak = ledger.allocated_peak if metric == "allocated" else ledger.reserved_peak
    alive = _alive(ledger, peak)
    reserved_bytes = ledger.reserved_peak.reserved_bytes
    own = {
        "allocated": ledger.allocated_peak.allocated_bytes,
        "reserved": reserved_bytes,
        "device": reserved_bytes + context_bytes + nccl_bytes,
    }
    sums = _components(alive, peak, metric, {components.CONTEXT: context_bytes, components.NCCL: nccl_bytes})
    if peaks is not None:
        missing_bytes = peaks[metric] - own[metric]
        sums[components.UNATTRIBUTED if missing_bytes > 0 else components.ROUNDING] += missing_bytes
    return MemoryReport(
        kind=kind,
        device=device,
        metric=metric,
        peak=own if peaks is None else peaks,
        components=sums,
        holders=_holders(alive, root, () if metric == "allocated" else ledger.cached_at(peak)),
        rank=rank,
        host=host,
        caveats=tuple(caveats),
        seconds=round(seconds, 3),
        timeline=lives.timeline(peak.at) if lives is not None else None,
        phase=next((phase.value for phase, one in ledger.phase_peaks.items() if one is peak), ""),
        phases=tuple(_other_phases(ledger, root)) if metric == "allocated" else (),
        held=_held(ledger, root),
        recomputed=_recomputed(ledger, root),
    )


def host_report(ledger: HostLedger, *, root: str, rank: int = 0) -> MemoryReport | None:
    """The rank's host memory at its own peak; None if it is less than ``OF_NOTE_BYTES``."""
    if ledger.allocated_peak.allocated_bytes < OF_NOTE_BYTES:
        return None
    return memory_report(
        ledger, metric="allocated", context_bytes=0, root=root, rank=rank, caveats=(_ONLY_TENSORS,)
    )


def _other_phases(ledger: Ledger, root: str) -> Iterator[PhasePeak]:
    """The peaks of the phases in which something was allocated, without the largest."""
    for phase, peak in ledger.phase_peaks.items():
        if peak is not ledger.allocated_peak and peak.allocated_bytes:
            alive = _alive(ledger, peak)
            sums = _components(alive, peak, "allocated", {})
            yield PhasePeak(phase.value, peak.allocated_bytes, sums, _holders(alive, root))


def _recomputed(ledger: Ledger, root: str) -> dict[str, float]:
    """What ran again in backwards, by module or line: the share of its storages that were made again."""
    forward: Counter[object] = Counter()
    again: Counter[tuple[str | None, Line, str]] = Counter()
    for (is_again, module, line, operator), times in ledger.runs.items():
        name = module_pattern(module)
        if is_again:
            again[name, line, operator] += times
        else:
            for one in {name, None}:
                forward[one, line, operator] += times
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for key, times in again.items():
        if forward[key]:
            sums[key[0] or _place(key[1], root) or ""].update(again=times, forward=forward[key])
    return {name: round(one["again"] / one["forward"], 2) for name, one in sorted(sums.items())}


def _held(ledger: Ledger, root: str) -> HeldMemory | None:
    """What is held when the body has ended; None where that was not seen."""
    end = ledger.body_end
    if end is None:
        return None
    two = ledger.step_ends.last_two()
    return HeldMemory(
        bytes=end.allocated_bytes,
        holders=_holders(_with_components(ledger, end.alive), root),
        grown=_grown(ledger, *two, root) if two is not None else None,
    )


def _grown(ledger: Ledger, last: Moment, before: Moment, root: str) -> HeldMemory:
    """What ``last`` has more than ``before``, by line, the most first; no lines if it has no more."""
    grown_bytes = last.allocated_bytes - before.allocated_bytes
    if grown_bytes <= 0:
        return HeldMemory(grown_bytes)
    had = _grouped(_with_components(ledger, before.alive), root)
    now = _grouped(_with_components(ledger, last.alive), root)
    rows = []
    for group, held in now.items():
        more_bytes = _bytes_of(held) - _bytes_of(had.get(group, ()))
        if more_bytes > 0:
            row = _holder(group, held[-max(1, len(held) - len(had.get(group, ()))) :])  # the newest
            is_whole = row.bytes == more_bytes
            rows.append(row if is_whole else replace(row, bytes=more_bytes, largest_bytes=None))
    return HeldMemory(grown_bytes, tuple(sorted(rows, key=lambda row: -row.bytes)[:MOST_HOLDERS]))


def _alive(ledger: Ledger, peak: Peak) -> list[tuple[Record, str]]:
    return _with_components(ledger, ledger.alive_at(peak))


def _with_components(ledger: Ledger, records: Iterable[Record]) -> list[tuple[Record, str]]:
    return [(record, ledger.component_of(record)) for record in records]


def _components(
    alive: list[tuple[Record, str]], peak: Peak, metric: str, outside: Mapping[str, int]
) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for record, component in alive:
        sums[component] += record.requested_bytes
    sums[components.ROUNDING] = peak.allocated_bytes - sum(sums.values())
    if metric != "allocated":
        sums[components.CACHED] = peak.reserved_bytes - peak.allocated_bytes
    if metric == "device":
        sums.update(outside)
    return {name: sums[name] for name in components.COMPONENTS}


def _holders(alive: list[tuple[Record, str]], root: str, cached: Iterable[Cached] = ()) -> tuple[Holder, ...]:
    groups = _grouped(alive, root)
    for free in cached:
        group = _group(components.CACHED, free.asked, root)._replace(split_by=_named(free.largest, root))
        groups.setdefault(group, []).append((free.size_bytes, free.asked))
    largest = sorted(groups.items(), key=lambda entry: -_bytes_of(entry[1]))[:MOST_HOLDERS]
    return tuple(_holder(group, held) for group, held in largest)


def _grouped(alive: list[tuple[Record, str]], root: str) -> dict[_Group, list[tuple[int, Record]]]:
    groups: dict[_Group, list[tuple[int, Record]]] = {}
    for record, component in alive:
        groups.setdefault(_group(component, record, root), []).append((record.requested_bytes, record))
        rounded_bytes = record.block_bytes - record.requested_bytes
        if rounded_bytes > SMALL_BYTES:  # a rest that large blocks keep, as it is not split off, is no larger
            group = _group(components.ROUNDING, record, root)
            groups.setdefault(group, []).append((rounded_bytes, record))
    return groups


def _bytes_of(held: Iterable[tuple[int, Record]]) -> int:
    return sum(size for size, _ in held)


def _group(component: str, record: Record, root: str) -> _Group:
    return _Group(
        component,
        module_pattern(record.name or record.module),
        _place((record.file, record.line), root),
        record.operator,
        _place(record.caller, root) if len(record.callers) > 1 else None,
    )


def _place(line: tuple[str | None, int] | None, root: str) -> str | None:
    return f"{shown_path(line[0], root)}:{line[1]}" if line and line[0] is not None else None


def _named(record: Record | None, root: str) -> str | None:
    """The storage in one line, for another's row: its module, or operator, and its line."""
    if record is None:
        return None
    what = module_pattern(record.name or record.module) or record.operator
    return ", ".join(filter(None, (what, _place((record.file, record.line), root)))) or None


def _holder(group: _Group, held: list[tuple[int, Record]]) -> Holder:
    sizes = [size for size, _ in held]
    first = held[0][1]
    paths = {record.name or record.module for _, record in held}
    dtypes = {record.dtype for _, record in held}
    return Holder(
        bytes=sum(sizes),
        count=len(sizes),
        component=group.component,
        module=paths.pop() if len(paths) == 1 else group.module,
        location=group.location,
        operator=group.operator,
        source=_source_line(first.file, first.line),
        largest_bytes=max(sizes) if len(sizes) > 1 else None,
        phase=_phase(first).value,
        details=_details(first.caller, group.caller),
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        split_by=group.split_by,
    )


def _phase(record: Record) -> Phase:
    """Of a double backward, in which no module runs again, the backward."""
    is_backward = record.phase is Phase.RECOMPUTE and record.root_call is None
    return Phase.BACKWARD if is_backward else record.phase


def _details(caller: Line | None, place: str | None) -> tuple[str, ...]:
    return () if caller is None else (_source_line(*caller) or "", *filter(None, [place]))


def _source_line(file: str | None, line: int) -> str | None:
    return linecache.getline(file, line).strip()[:_LINE_LENGTH] or None if file is not None else None
