"""MemoryReport: what one rank of one test takes, component by component."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from .caveats import Caveat, texts_of
from .components import METRICS
from .json_object import Difference, JsonObject, Word
from .user_input.kinds import choice

#: Most holders of a report, the largest ones.
MOST_HOLDERS: Final = 100
FORWARD: Final = "forward"
#: The phase of a step in which gradients are computed.
BACKWARD: Final = "backward"
RECOMPUTE: Final = "recompute"
#: The phases of a step that have a peak each.
PHASES: Final = (FORWARD, BACKWARD, "optimizer")
Phase = Annotated[str, choice(PHASES)]
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def module_pattern(module: str | None) -> str | None:
    """``module`` with its numbers replaced: ``layers.3.mlp`` is ``layers.*.mlp``."""
    return _NUMBER.sub("*", module) if module is not None else None


@dataclass(frozen=True, slots=True)
class Holder(JsonObject):
    """Storages with the same component, module, line and operator that were alive at the peak.

    Or what is free of segments that were reserved for such storages: the component is then ``cached``.
    """

    required: ClassVar[tuple[str, ...]] = ("operator",)

    bytes: int
    """Bytes asked for, all of them together."""
    count: int
    """How many storages."""
    component: Word
    """What the memory is for."""
    module: str | None = None
    """Path of the parameter or nn.Module they belong to or were made in; ``*`` replaces several numbers."""
    location: str | None = None
    """``file:line`` of the user's code that was running; in backward that of the forward, where known."""
    operator: str = ""
    """What allocated it (``aten::bmm``); else the kernel, the method or the formula."""
    source: str | None = None
    """The text of that line, which identifies it if it has moved."""
    largest_bytes: int | None = None
    """The largest of several, ``count`` times which is ``bytes`` if all are equal."""
    phase: str = ""
    """The phase in which they were allocated, as of ``PhasePeak``, or ``recompute``; empty if unknown."""
    details: tuple[str, ...] = ()
    """The text of the user's line around the outermost module, or the library, that ran; and where that is,
    as ``file:line``, if several led here."""
    dtype: Word | None = None
    """Of parameters, optimizer states and what modules return; None where it is not known, or differs."""
    split_by: str | None = None
    """Of cached memory, whose other fields are those of the storage that it was reserved for: the largest
    storage that lives in the same segments, so that they are not given back. None where none does."""


@dataclass(frozen=True, slots=True)
class HeldMemory(JsonObject):
    """What is still allocated when the test's body has ended, and its fixtures have not."""

    bytes: Difference
    """As of ``torch.cuda.memory_allocated``."""
    holders: tuple[Holder, ...] = ()
    """The largest first."""
    grown: HeldMemory | None = None
    """What the last step has left behind: by how much more was allocated after it than after the one before,
    and what each of its lines holds more. None if no step was repeated."""


@dataclass(frozen=True, slots=True)
class PhasePeak(JsonObject):
    """The moment of one phase of the step at which most was allocated."""

    phase: Phase
    """``forward``, ``backward`` or ``optimizer``."""
    bytes: int
    """The most that is allocated in it."""
    components: Mapping[Word, Difference]
    """They add up to ``bytes``."""
    holders: tuple[Holder, ...]
    """The largest first."""

    @property
    def peak_bytes(self) -> int:
        """As of a ``MemoryReport``."""
        return self.bytes


Moments = Annotated[tuple[int, ...], 2000]


@dataclass(frozen=True, slots=True)
class Timeline(JsonObject):
    """Requested memory over a run, by component. A moment is an allocation or a free, by its number.

    ``components[name][i]`` are those of the fullest moment from ``moments[i]`` up to the next.
    """

    moments: Moments
    """Counts of allocations and frees."""
    components: Mapping[Word, Moments]
    """Requested bytes, an entry for each of ``moments``."""
    peak_moment: int
    """The moment of the report's peak: one of ``moments``, whose bytes are those of the moment itself."""
    phases: tuple[Annotated[tuple[int, Word], "a moment and a name"], ...] = ()
    """The moment at which each phase of the step began: ``forward``, ``backward`` or ``optimizer``."""


@dataclass(frozen=True, slots=True)
class MemoryReport(JsonObject):
    """One figure for one rank: traced, measured or analytic.

    ``components`` add up to the peak of ``metric`` exactly.
    """

    required: ClassVar[tuple[str, ...]] = ("rank", "holders")

    kind: Word
    """``traced`` in an estimate, ``measured``, or ``analytic``."""
    metric: Annotated[str, choice(METRICS)]
    """Which peak ``components`` add up to."""
    peak: Mapping[Word, int]
    """The peak of each metric, each at its own moment."""
    components: Mapping[Word, Difference]
    """Bytes at the peak by what they are for; ``rounding`` may be negative in a measurement."""
    holders: tuple[Holder, ...] = ()
    """Up to 100, the largest first."""
    rank: int = 0
    """Whose it is."""
    host: MemoryReport | None = None
    """The rank's host memory; None below a MiB."""
    caveats: tuple[Caveat, ...] = ()
    """Its assumptions, and memory that it leaves out."""
    seconds: float = 0.0
    """How long it took to make, with ``variants``."""
    timeline: Timeline | None = None
    """Memory over the run, if a report was requested."""
    device: str = ""
    """What it was run on: ``stand-in``, or a card by its name; empty where nothing was run."""
    phase: Annotated[str, choice(("", *PHASES))] = ""
    """The phase of the peak, as of ``PhasePeak``; empty for metrics other than ``allocated``."""
    phases: tuple[PhasePeak, ...] = ()
    """The peaks of the other phases."""
    variants: tuple[int, ...] = ()
    """The peaks of ``metric`` of further runs, with other answers and random numbers, in bytes; empty where
    nothing was read that nobody knows."""
    held: HeldMemory | None = None
    """What was held when the body had ended; None where nothing was run, or it did not end."""
    recomputed: Mapping[str, float] = field(default_factory=dict)
    """Modules, or lines outside of any, that ran again in backwards (activation checkpointing): which share
    of what they allocated in forwards they allocated again."""
    margin: float = 0.0
    """How much more it may be, as a share of the figure: of arithmetic, the worst error that was seen."""

    @property
    def host_bytes(self) -> int:
        """The peak of the rank's host memory; 0 below a MiB."""
        return self.host.peak_bytes if self.host is not None else 0

    @property
    def held_bytes(self) -> int | None:
        """What was still allocated when the body had ended; None where that is not known."""
        return self.held.bytes if self.held is not None else None

    def bound_bytes(self, size_bytes: int) -> int:
        """The most that what the report says is ``size_bytes`` may be."""
        return round(size_bytes * (1 + self.margin))

    def in_phase(self, phase: str) -> MemoryReport | PhasePeak | None:
        """The peak of ``phase``; None where it is not known, or nothing was allocated then."""
        if phase == self.phase:
            return self
        return next((one for one in self.phases if one.phase == phase), None)

    @property
    def peak_bytes(self) -> int:
        """The peak of the budget's metric."""
        return self.peak.get(self.metric, 0)

    @property
    def largest_component(self) -> tuple[str, int]:
        """The component that holds most at the peak, and its bytes."""
        return max(self.components.items(), key=lambda entry: entry[1], default=("", 0))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The lines of *Taken for granted*: values that reads of data were assumed to give, and others."""
        return texts_of(self.caveats, missing=False)

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """The lines of *Not modelled*."""
        return texts_of(self.caveats, missing=True)
