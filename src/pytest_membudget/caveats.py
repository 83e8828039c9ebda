"""Caveat: an assumption of a figure, or memory missing in it; and whether its budget counts as checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from .json_object import JsonObject, Lines, read_word

UNCHECKED: Final = "unchecked"
"""Nobody knows by how much the figure is off: a failure under ``--membudget-strict``, else a mark."""
ASSUMED: Final = "assumed"
"""It rests on data: a mark."""
METHOD: Final = "method"
"""How the figure was made: neither."""


@dataclass(frozen=True, slots=True)
class CaveatKind:
    """What all caveats of one kind have in common; in JSON its name."""

    name: str
    level: str
    """``unchecked``, ``assumed`` or ``method``."""
    remedy: str = ""
    """What to do about it."""
    is_missing: bool = False
    """Memory that is not in the figure: *Not modelled*, and otherwise *Taken for granted*."""

    def to_json(self) -> str:
        """Its name."""
        return self.name

    @classmethod
    def from_json(cls, data: Any, *, checked: bool = False) -> CaveatKind:
        """The kind of that name; one that is not known is taken for the worst."""
        return KINDS.get(read_word(data), OTHER_MISSING)


_MEASURE: Final = "measure the test on a GPU (--membudget-measure=require)"

#: Taken for granted.
READ: Final = CaveatKind("read", ASSUMED, "say what is read: with pytest_membudget.assume(value=...)")
SIZE_READ: Final = CaveatKind(
    "size-read",
    UNCHECKED,
    "make the number from what the program knows (shapes, settings), or say what it is: with "
    "pytest_membudget.assume(value=64)",
)
HOST_READ: Final = CaveatKind("host-read", ASSUMED, READ.remedy)
HOST_SIZE_READ: Final = CaveatKind("host-size-read", UNCHECKED, SIZE_READ.remedy)
DEPENDS: Final = CaveatKind(
    "depends",
    UNCHECKED,
    "say what is read, with pytest_membudget.assume(value=...) and its like, give random numbers a seed, "
    "or wait for the stream (torch.cuda.Stream.synchronize)",
)
WORST_CASE: Final = CaveatKind("worst-case", ASSUMED, "say how much it is: pytest_membudget.assume")
GIVEN: Final = CaveatKind("given", ASSUMED)
DRAWN: Final = CaveatKind(
    "drawn",
    UNCHECKED,
    "say what the random numbers give, as in with pytest_membudget.assume(true_fraction=0.15)",
)
CARD_SOUGHT: Final = CaveatKind("card-sought", UNCHECKED, "ask torch: torch.cuda.is_available()")
FREE_MEMORY: Final = CaveatKind("free-memory", UNCHECKED, "name the card in the mark: gpu='H100-80GB'")
OUT_OF_MEMORY: Final = CaveatKind("out-of-memory", ASSUMED)
OTHER_RANKS: Final = CaveatKind(
    "other-ranks", UNCHECKED, "budget the same step over at most 8 GPUs too: there each rank is run"
)
OTHER_OBJECTS: Final = CaveatKind(
    "other-objects",
    UNCHECKED,
    "gather numbers, texts, lists and dictionaries of them, over at most 8 GPUs",
)
HOW: Final = CaveatKind("method", METHOD)
UNTRAINED: Final = CaveatKind("untrained", METHOD)

#: Not modelled.
LIBRARY: Final = CaveatKind("library", UNCHECKED, _MEASURE, is_missing=True)
PROCESS: Final = CaveatKind(
    "process",
    UNCHECKED,
    "do the process's work in the test, or start it in another test, without a budget",
    is_missing=True,
)
THREAD: Final = CaveatKind(
    "thread", UNCHECKED, "join the thread before the test's body ends", is_missing=True
)
TOOL: Final = CaveatKind("tool", METHOD, is_missing=True)
SKIPPED_PART: Final = CaveatKind(
    "skipped-part", UNCHECKED, "let the part run, or make it a test with a budget", is_missing=True
)
OTHER_CARD: Final = CaveatKind(
    "other-card", UNCHECKED, "put it on the rank's own card: torch.cuda.current_device()", is_missing=True
)
NCCL: Final = CaveatKind(
    "nccl", UNCHECKED, "hold the budget to metric='reserved', which has no NCCL in it", is_missing=True
)

#: Of a later version.
OTHER_MISSING: Final = CaveatKind("other-missing", UNCHECKED, is_missing=True)

KINDS: Final[Mapping[str, CaveatKind]] = {
    kind.name: kind for kind in [*vars().values()] if isinstance(kind, CaveatKind)
}


@dataclass(frozen=True, slots=True)
class Caveat(JsonObject):
    """One of a figure's."""

    derived: ClassVar[tuple[str, ...]] = ("level",)

    kind: CaveatKind
    text: Lines
    """In a line, with its place."""

    @property
    def level(self) -> str:
        """``unchecked``, ``assumed`` or ``method``."""
        return self.kind.level


def caveats_of(kind: CaveatKind, texts: Iterable[str]) -> list[Caveat]:
    """A caveat of ``kind`` for each of ``texts``."""
    return [Caveat(kind, text) for text in texts]


def texts_of(caveats: Iterable[Caveat], *, missing: bool) -> tuple[str, ...]:
    """The lines of *Not modelled*, where ``missing``, or of *Taken for granted*."""
    return tuple(one.text for one in caveats if one.kind.is_missing == missing)
