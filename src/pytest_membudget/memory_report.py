"""MemoryReport: what one rank of one test takes, component by component; JSON in and out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .caveats import Caveat, caveats_in, texts_of
from .components import COMPONENTS

#: The phase of a step in which gradients are computed.
BACKWARD: Final = "backward"
#: The phases of a step that have a peak each.
PHASES: Final = ("forward", BACKWARD, "optimizer")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def module_pattern(module: str | None) -> str | None:
    """``module`` with its numbers replaced: ``layers.3.mlp`` is ``layers.*.mlp``."""
    return _NUMBER.sub("*", module) if module is not None else None


@dataclass(frozen=True, slots=True)
class Holder:
    """Storages with the same component, module, line and operator that were alive at the peak."""

    bytes: int
    """Bytes asked for, all of them together."""
    count: int
    """How many storages."""
    component: str
    module: str | None
    """Path of the nn.Module they belong to or were made in; ``*`` replaces numbers."""
    location: str | None
    """``file:line`` of the user's code that was running."""
    operator: str
    source: str | None = None
    """The text of that line, which identifies it if it has moved."""
    each_bytes: int | None = None
    """The size of each storage; None for a single one, and for several sizes."""
    phase: str = ""
    """The phase in which they were allocated, as of ``PhasePeak``, or ``recompute``; empty if unknown."""


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """The moment of one phase of the step at which most was allocated."""

    phase: str
    """``forward``, ``backward`` or ``optimizer``."""
    peak_bytes: int
    components: Mapping[str, int]
    """They add up to ``peak_bytes``."""
    holders: tuple[Holder, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        return {
            "phase": self.phase,
            "peak_bytes": self.peak_bytes,
            "components": dict(self.components),
            "holders": _holders_json(self.holders),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PhasePeak:
        """The inverse of ``to_json``."""
        return cls(
            phase=data["phase"],
            peak_bytes=data["peak_bytes"],
            components=_in_order(data["components"]),
            holders=_holders_in(data),
        )


@dataclass(frozen=True, slots=True)
class PeakBytes:
    """The peaks of one rank, as ``torch.cuda.memory_stats`` means them; each at its own moment."""

    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    device_bytes: int
    """Reserved memory, the CUDA context and NCCL's memory; only the first is the allocator's."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Requested memory over a run, by component. A moment is an allocation or a free, by its number.

    From ``moments[i]`` up to the next, each component's bytes differ by at most ``within_bytes`` from
    ``components[name][i]``, which are those of the largest moment between the two.
    """

    moments: tuple[int, ...]
    components: Mapping[str, tuple[int, ...]]
    peak_moment: int
    """The moment of the report's peak: one of ``moments``, whose bytes are those of the moment itself."""
    within_bytes: int
    phases: tuple[tuple[int, str], ...] = ()
    """The moment at which each phase of the step began: ``forward``, ``backward`` or ``optimizer``."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        return {
            "moments": list(self.moments),
            "components": {name: list(sizes) for name, sizes in self.components.items()},
            "peak_moment": self.peak_moment,
            "within_bytes": self.within_bytes,
            "phases": [list(phase) for phase in self.phases],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Timeline:
        """The inverse of ``to_json``."""
        return cls(
            moments=tuple(data["moments"]),
            components={name: tuple(sizes) for name, sizes in data["components"].items()},
            peak_moment=data["peak_moment"],
            within_bytes=data["within_bytes"],
            phases=tuple((moment, phase) for moment, phase in data["phases"]),
        )


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """One figure for one rank: traced, measured or analytic.

    ``components`` add up to the peak of ``metric`` exactly.
    """

    kind: str
    metric: str
    peak: PeakBytes
    components: Mapping[str, int]
    holders: tuple[Holder, ...] = ()
    rank: int = 0
    host: MemoryReport | None = None
    caveats: tuple[Caveat, ...] = ()
    """Its assumptions, and memory that it leaves out."""
    seconds: float = 0.0
    timeline: Timeline | None = None
    """Memory over the run, if a report was requested."""
    device: str = ""
    """What it was run on: ``stand-in``, ``fake`` or ``cuda``; empty where nothing was run."""
    phase: str = ""
    """The phase of the peak, as of ``PhasePeak``; empty for metrics other than ``allocated``."""
    other_phases: tuple[PhasePeak, ...] = ()
    """The peaks of the other phases."""

    def in_phase(self, phase: str) -> MemoryReport | PhasePeak | None:
        """The peak of ``phase``; None where it is not known, or nothing was allocated then."""
        if phase == self.phase:
            return self
        return next((one for one in self.other_phases if one.phase == phase), None)

    @property
    def peak_bytes(self) -> int:
        """The peak of the budget's metric."""
        return int(getattr(self.peak, f"{self.metric}_bytes"))

    @property
    def bound_bytes(self) -> int:
        """An upper bound of memory that is not modelled and has a bound, in the budget's metric.

        Kernels run one after the other, so of allocated memory only the largest bound counts; the allocator
        may keep what it has reserved for each.
        """
        bounds = [one.bound_bytes for one in self.caveats if one.bound_bytes is not None]
        return max(bounds, default=0) if self.metric == "allocated" else sum(bounds)

    @property
    def most_bytes(self) -> int:
        """The peak plus ``bound_bytes``, which is compared with the budget."""
        return self.peak_bytes + self.bound_bytes

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The lines of *Taken for granted*: values that reads of data were assumed to give, and others."""
        return texts_of(self.caveats, missing=False)

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """The lines of *Not modelled*."""
        return texts_of(self.caveats, missing=True)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        peak = {name: getattr(self.peak, name) for name in PeakBytes.__slots__}
        return {
            "kind": self.kind,
            "rank": self.rank,
            "metric": self.metric,
            "peak": peak,
            "components": dict(self.components),
            "holders": _holders_json(self.holders),
            "host": self.host.to_json() if self.host is not None else None,
            **_caveats_json(self.caveats),
            "seconds": round(self.seconds, 3),
            "timeline": self.timeline.to_json() if self.timeline is not None else None,
            "device": self.device,
            "phase": self.phase,
            "other_phases": [one.to_json() for one in self.other_phases],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryReport:
        """The inverse of ``to_json``."""
        return cls(
            kind=data["kind"],
            rank=data["rank"],
            metric=data["metric"],
            peak=PeakBytes(**data["peak"]),
            components=_in_order(data["components"]),
            holders=_holders_in(data),
            host=cls.from_json(data["host"]) if data.get("host") is not None else None,
            caveats=caveats_in(data),
            seconds=data["seconds"],
            timeline=Timeline.from_json(data["timeline"]) if data.get("timeline") is not None else None,
            device=data.get("device", ""),
            phase=data.get("phase", ""),
            other_phases=tuple(map(PhasePeak.from_json, data.get("other_phases", ()))),
        )


def with_caveats(report: Mapping[str, Any], caveats: Iterable[Caveat]) -> dict[str, Any]:
    """A report's JSON with further ``caveats``."""
    return {**report, **_caveats_json((*caveats_in(report), *caveats))}


def _caveats_json(caveats: Iterable[Caveat]) -> dict[str, Any]:
    """``caveats`` and, for readers of earlier versions, their lines in two lists."""
    found = list(caveats)
    return {
        "assumptions": list(texts_of(found, missing=False)),
        "not_modelled": list(texts_of(found, missing=True)),
        "caveats": [one.to_json() for one in found],
    }


def _holders_json(holders: Iterable[Holder]) -> list[dict[str, Any]]:
    return [{name: getattr(holder, name) for name in Holder.__slots__} for holder in holders]


def _holders_in(data: Mapping[str, Any]) -> tuple[Holder, ...]:
    return tuple(Holder(**holder) for holder in data["holders"])


def _in_order(components: Mapping[str, int]) -> dict[str, int]:
    """``components`` in the order of reports; cached estimates are written with sorted keys."""
    names = [name for name in COMPONENTS if name in components]
    return {name: components[name] for name in dict.fromkeys((*names, *components))}
