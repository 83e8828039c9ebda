"""From a rank's moments to its MemoryReport: the peak's terms as components, what holds it, host memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .. import components
from ..caveats import HOW, LEAST, Caveat, texts_of
from ..memory_report import Holder, MemoryReport, PeakBytes
from ..units import MIB
from .moments import Moment, peak_of
from .terms import Term, by_component

#: kSmallBuffer and the granularity of cudaMalloc'd segments above it: 2 MiB.
_SEGMENT_BYTES = 2 * MIB


@dataclass(frozen=True, slots=True)
class RankFigure:
    """The analytic figure of a set of identical ranks."""

    rank: int
    """The first of them."""
    ranks: int
    """How many they are."""
    moments: tuple[Moment, ...]
    host: tuple[Term, ...] = ()
    """What each of them holds in the host's memory."""
    context_bytes: int = 0
    nccl_bytes: int = 0
    caveats: tuple[Caveat, ...] = ()
    replay: Callable[[], int] | None = field(default=None, compare=False)
    """What the caching allocator's model reserves for the step, tensor by tensor; None: no order is known."""

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """The lines on what the formulas leave out."""
        return texts_of(self.caveats, missing=True)

    @property
    def peak(self) -> Moment:
        """The moment at which most is allocated."""
        return peak_of(self.moments)

    @property
    def allocated_bytes(self) -> int:
        """At the peak, every tensor rounded up to the allocator's blocks."""
        peak = self.peak
        return peak.bytes + rounding_bytes(peak.terms)

    @property
    def reserved_bytes(self) -> int:
        """What the allocator reserves: replayed where the order of tensors is known, else by formula.

        Never below what is allocated. A replay takes some ten times as long as all the rest.
        """
        if self.replay is None:
            return self.least_reserved_bytes
        allocated_bytes = -(-self.allocated_bytes // _SEGMENT_BYTES) * _SEGMENT_BYTES
        return max(self.replay(), allocated_bytes)

    @property
    def least_reserved_bytes(self) -> int:
        """What the allocator must hold for each stream's highest: blocks stay with their stream's pool."""
        highest: Counter[str] = Counter()
        for moment in self.moments:
            for stream, size_bytes in moment.allocated_by_stream.items():
                held_bytes = size_bytes if stream else size_bytes + moment.stranded_bytes
                highest[stream] = max(highest[stream], held_bytes)
        return sum(-(-size_bytes // _SEGMENT_BYTES) * _SEGMENT_BYTES for size_bytes in highest.values())


def rounding_bytes(terms: Sequence[Term]) -> int:
    """What rounding every tensor of ``terms`` up to whole blocks adds."""
    return sum(term.allocated_bytes - term.bytes for term in terms)


def report_of(figure: RankFigure, metric: str = "allocated", seconds: float = 0.0) -> MemoryReport:
    """``figure`` as a report that budgets are held to; its components add up to ``metric``'s peak."""
    peak = figure.peak
    reserved = figure.least_reserved_bytes if metric == "allocated" else figure.reserved_bytes
    terms = peak.terms
    rounding = rounding_bytes(terms)
    allocated = peak.bytes + rounding
    outside = figure.context_bytes + figure.nccl_bytes
    sums = dict.fromkeys(components.COMPONENTS, 0) | by_component(terms)
    sums[components.ROUNDING] = rounding
    if metric != "allocated":
        sums[components.CACHED] = reserved - allocated
    if metric == "device":
        sums[components.CONTEXT], sums[components.NCCL] = figure.context_bytes, figure.nccl_bytes
    return MemoryReport(
        kind="analytic",
        metric=metric,
        peak=PeakBytes(allocated, allocated, reserved, reserved + outside),
        components=sums,
        holders=_holders(terms),
        rank=figure.rank,
        host=_host_report(figure) if figure.host else None,
        caveats=(
            Caveat(HOW, f"the peak is at: {peak.name}"),
            *_how_reserved(figure, metric),
            *figure.caveats,
        ),
        seconds=round(seconds, 3),
    )


def _how_reserved(figure: RankFigure, metric: str) -> tuple[Caveat, ...]:
    if metric == "allocated":
        return ()
    if figure.replay is None:
        return (Caveat(LEAST, "reserved by formula: the least that the allocator must hold"),)
    return (Caveat(HOW, "reserved: two steps, tensor by tensor, through the model of the allocator"),)


def _host_report(figure: RankFigure) -> MemoryReport:
    sums = dict.fromkeys(components.COMPONENTS, 0) | by_component(figure.host)
    total = sum(sums.values())
    return MemoryReport(
        kind="analytic",
        metric="allocated",
        peak=PeakBytes(total, total, total, total),
        components=sums,
        holders=_holders(figure.host),
        rank=figure.rank,
    )


def _holders(terms: Sequence[Term], most: int = 40) -> tuple[Holder, ...]:
    """The terms, equal ones together, largest first; the formula is in the field of the operator."""
    groups: dict[tuple[str, str, str, str], list[Term]] = defaultdict(list)
    for term in terms:
        if term.bytes:
            groups[(term.component, term.name, term.formula, term.source)].append(term)
    holders = [
        Holder(
            bytes=sum(term.bytes for term in equal),
            count=sum(term.count for term in equal),
            component=component,
            module=name,
            location=source or None,
            operator=formula,
        )
        for (component, name, formula, source), equal in groups.items()
    ]
    return tuple(sorted(holders, key=lambda holder: -holder.bytes)[:most])
