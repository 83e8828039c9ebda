"""Caveat: an assumption of a figure, or memory missing in it; and whether its budget counts as checked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final

from .json_object import JsonObject, Lines, read_word

MISSING: Final = "missing"
"""Memory that is not in the figure: a failure under ``--membudget-strict``, else a mark. *Not modelled*."""
UNCHECKED: Final = "unchecked"
"""Nobody knows by how much the figure is off: the same. *Taken for granted*, as the following."""
ASSUMED: Final = "assumed"
"""It rests on data: a mark."""
METHOD: Final = "method"
"""How the figure was made: neither."""
OTHERWISE: Final = "; with other answers "
"""Between what a figure depends on and what it is then, in the text of a caveat."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What all caveats of one cause have in common; in JSON its name."""

    name: str
    kind: str
    """``missing``, ``unchecked``, ``assumed`` or ``method``."""
    remedy: str = ""
    """What to do about it."""
    most_bytes: int | None = None
    """Of allocated memory at most so much is missing in the figure; None where nobody knows."""

    def to_json(self) -> str:
        """Its name."""
        return self.name

    @classmethod
    def from_json(cls, data: Any, *, checked: bool = False) -> "Cause":
        """The cause of that name; one that is not known is taken for the worst."""
        return CAUSES.get(read_word(data), OTHER_MISSING)


_MEASURE: Final = "measure the test on a GPU (--membudget-measure=require)"

#: Taken for granted.
READ: Final = Cause("read", ASSUMED, "say what is read: with pytest_membudget.assume(value=...)")
SIZE_READ: Final = Cause(
    "size-read",
    UNCHECKED,
    "make the number from what the program knows (shapes, settings), or say what it is: with "
    "pytest_membudget.assume(value=...)",
)
HOST_READ: Final = Cause("host-read", UNCHECKED, SIZE_READ.remedy)
DEPENDS: Final = Cause(
    "depends",
    UNCHECKED,
    "say what is read, with pytest_membudget.assume(value=...) and its like, give random numbers a seed, "
    "or wait for the stream (torch.cuda.Stream.synchronize)",
)
#: As ``DEPENDS``, of host memory alone: unchecked where the budget limits that.
HOST_DEPENDS: Final = Cause("host-depends", ASSUMED, DEPENDS.remedy)
#: The same of what is held when the body ends: cycles alone hold it where Python has not collected.
HELD_DEPENDS: Final = Cause("held-depends", ASSUMED, DEPENDS.remedy)
#: The same of what the memory is for: of equal peaks one may have an activation where another has an input.
COMPONENT_DEPENDS: Final = Cause("component-depends", ASSUMED, DEPENDS.remedy)
#: The same of memory by another metric than the budget's: no question, as each run may run out of memory.
METRIC_DEPENDS: Final = Cause("metric-depends", ASSUMED, DEPENDS.remedy)
POOL: Final = Cause("pool", UNCHECKED, "let the jobs run one after another, or measure the test on a GPU")
STEP_TIME: Final = Cause(
    "step-time", UNCHECKED, "wait for each collective's work (Work.wait()), not for its future alone"
)
WORST_CASE: Final = Cause("worst-case", ASSUMED, "say how much it is: pytest_membudget.assume")
GIVEN: Final = Cause("given", ASSUMED)
DRAWN: Final = Cause(
    "drawn",
    UNCHECKED,
    "say what the random numbers give, as in with pytest_membudget.assume(true_fraction=0.15)",
)
#: The figure is that of a run in which Python collects nothing: at no time is more allocated in another.
COLLECTED: Final = Cause(
    "collected",
    UNCHECKED,
    "break the cycle, or call gc.collect() where what it holds is needed no more",
    most_bytes=0,
)
CARD_SOUGHT: Final = Cause("card-sought", UNCHECKED, "ask torch: torch.cuda.is_available()")
FREE_MEMORY: Final = Cause("free-memory", UNCHECKED, "name the card in the mark: gpu='H100-80GB'")
OUT_OF_MEMORY: Final = Cause("out-of-memory", ASSUMED)
OTHER_RANKS: Final = Cause(
    "other-ranks",
    UNCHECKED,
    "let all ranks do the same, compare with numbers (rank == 5), or use at most 8 GPUs: there each is run",
)
OTHER_OBJECTS: Final = Cause(
    "other-objects",
    UNCHECKED,
    "gather numbers, texts, lists and dictionaries of them, over at most 8 GPUs",
)
HOW: Final = Cause("method", METHOD)
UNTRAINED: Final = Cause("untrained", METHOD)

#: Not modelled.
LIBRARY: Final = Cause("library", MISSING, _MEASURE)
#: Of 139 convolutions on an H100 (torch 2.11, cuDNN 9.19) none took over 8.3 MiB more than its plan says: a
#: tile of 64 KiB for each of 132 multiprocessors.
CONVOLUTION: Final = Cause("convolution", MISSING, _MEASURE, most_bytes=9 * 2**20)
PROCESS: Final = Cause(
    "process",
    MISSING,
    "do the process's work in the test, or start it in another test, without a budget",
)
THREAD: Final = Cause("thread", MISSING, "join the thread before the test's body ends")
TOOL: Final = Cause("tool", METHOD)
SKIPPED_PART: Final = Cause("skipped-part", MISSING, "let the part run, or make it a test with a budget")
OTHER_CARD: Final = Cause("other-card", MISSING, "put it on the rank's own card: torch.cuda.current_device()")
NCCL: Final = Cause("nccl", MISSING, "hold the budget to metric='reserved', which has no NCCL in it")

#: Of a later version.
OTHER_MISSING: Final = Cause("other-missing", MISSING)

CAUSES: Final[Mapping[str, Cause]] = {
    cause.name: cause for cause in [*vars().values()] if isinstance(cause, Cause)
}


@dataclass(frozen=True, slots=True)
class Caveat(JsonObject):
    """One of a figure's."""

    derived: ClassVar[tuple[str, ...]] = ("kind",)

    cause: Cause
    """Its name, a finer ``kind``."""
    text: Lines
    """In a line, with its place."""

    @property
    def kind(self) -> str:
        """``missing``, ``unchecked``, ``assumed`` or ``method``."""
        return self.cause.kind


def caveats_of(cause: Cause, texts: Iterable[str]) -> list[Caveat]:
    """A caveat of ``cause`` for each of ``texts``."""
    return [Caveat(cause, text) for text in texts]


def outcomes_once(texts: Iterable[str]) -> Iterator[str]:
    """``texts``; what several next to each other may lead to is in a line above them."""
    for outcome, group in groupby(texts, lambda text: text.partition(OTHERWISE)[2]):
        some = [*group]
        if not outcome or len(some) == 1:
            yield from some
            continue
        yield f"{OTHERWISE[2:]}to the {len(some)} that follow {outcome}"
        yield from (text.partition(OTHERWISE)[0] for text in some)


def texts_of(caveats: Iterable[Caveat], *, missing: bool) -> tuple[str, ...]:
    """The lines of *Not modelled*, where ``missing``, or of *Taken for granted*."""
    return tuple(one.text for one in caveats if (one.kind == MISSING) == missing)
