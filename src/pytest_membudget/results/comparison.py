"""Comparison: one test compared with the base, or with its entry in membudget.lock.yaml (LockCheck)."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from ..components import COMPONENTS, METRICS
from ..json_object import Count, Difference, JsonObject, Lines, Word
from ..memory_report import Timeline
from ..units import gib_text
from ..user_input.fields import described
from ..user_input.kinds import choice, number_table, parsed, text, whole

NEW: Final = "new"
REMOVED: Final = "removed"
GROWN: Final = "grown"
SHRUNK: Final = "shrunk"
UNCHANGED: Final = "unchanged"
NOT_COMPARABLE: Final = "not comparable"
STATES: Final = (NEW, REMOVED, GROWN, SHRUNK, UNCHANGED, NOT_COMPARABLE)
"""What has become of a test since the base, or since its entry in the lock file was written."""

LOCK_FILE: Final = "membudget.lock.yaml"
"""In pytest's root folder, next to pyproject.toml."""
UPDATE_COMMAND: Final = "pytest --membudget --membudget-update"
RAISE_COMMAND: Final = f"{UPDATE_COMMAND}=raise"

ELSEWHERE: Final = "elsewhere"
"""The module of a change that no holder of the reports accounts for."""
PEAK: Final = "peak"
COMPARED: Final = "compared"
"""Kinds that say which phase is compared, where the peak is in another."""
OTHERS: Final = "others"
"""The component of a change that sums all smaller ones."""


@dataclass(frozen=True, slots=True)
class Finding(JsonObject):
    """Memory of one component that the head, the base or both hold, and the difference between them."""

    bytes: Difference
    """Head minus base, of all its lines."""
    component: Word
    """As of a holder; ``others`` is the rest."""
    module: str | None = None
    """None also if the lines belong to several modules; ``elsewhere``: outside the holders."""
    location: str | None = None
    """``file:line`` at the head; of several lines that of the largest change."""
    base: str | None = None
    """Where it was at the base."""
    operator: str | None = None
    """None also if there are several operators."""
    count: Count = 1
    """How many lines have changed, without negligible ones; an operator outside of lines counts as one."""
    largest_bytes: Difference | None = None
    """Head minus base of the line at ``location``, where there are several."""
    source: str | None = None
    """The text of the line at ``location``; of what is gone, at ``base``."""
    details: tuple[str, ...] = ()
    """As of a holder; of several lines those of the largest change."""
    phase: str = ""
    """As of a holder; of several lines that of the largest change."""


@dataclass(frozen=True, slots=True)
class RunDifference(JsonObject):
    """What the run does otherwise than at the base, where it takes more, or less, with that."""

    kind: Word
    """As ``dtype`` or ``recompute``."""
    head: str
    """Now: a size, a share, a number or a name."""
    base: str = ""
    """At the base; empty where ``head`` says how many times as much."""
    details: tuple[str, ...] = ()
    """Of which modules, parameters, components or lines."""


@dataclass(frozen=True, slots=True)
class VersionChange(JsonObject):
    """An installed distribution that the base and the head have in different versions."""

    base: str | None = None
    """Its version at the base; None where it was not installed."""
    head: str | None = None
    """Its version now."""

    @property
    def text(self) -> str:
        """As in ``4.48.2 -> 4.48.3``."""
        if self.base is None or self.head is None:
            return f"{self.base or self.head} {'removed' if self.base else 'added'}"
        return f"{self.base} -> {self.head}"


Versions = Mapping[str, VersionChange]
"""By the names of distributions."""


@dataclass(frozen=True, slots=True)
class BaseFigure(JsonObject):
    """The base's figure that a test is compared with."""

    bytes: int
    """Its peak."""
    components: Mapping[Word, Difference] = field(default_factory=dict)
    """They add up to it."""
    timeline: Timeline | None = None
    """Memory over the base's run."""


@dataclass(frozen=True, slots=True)
class Comparison(JsonObject):
    """One test against the same test at the base."""

    status: Annotated[str, choice(STATES)]
    """What has become of it."""
    reason: Lines = ""
    """Why, in a line."""
    allowed: bool | None = None
    """False: the test fails by it, within its budget too. True: it passes, over its budget too, as it was at
    the base. None: its verdict decides."""
    bytes: int | None = None
    """The head's peak."""
    base: BaseFigure | None = None
    """None where it cannot be compared."""
    findings: tuple[Finding, ...] = ()
    """What explains the growth, the largest first."""
    differences: tuple[RunDifference, ...] = ()
    """What the run does otherwise, the surest first."""
    distributions: Versions = field(default_factory=dict)
    """Distributions with other versions than at the base, if the test has grown or shrunk. A few at most,
    those with lines of ``findings`` first: ``ComparedSession`` has all."""

    @property
    def base_bytes(self) -> int | None:
        """The base's peak; None where it cannot be compared."""
        return self.base.bytes if self.base is not None else None

    @property
    def growth_bytes(self) -> int:
        """Head minus base; 0 where they cannot be compared."""
        return self.bytes - self.base.bytes if self.bytes is not None and self.base is not None else 0


@dataclass(frozen=True, slots=True)
class ComparedSession(JsonObject):
    """What was compared in a whole session."""

    base: str | None = None
    """With what, as the user named it."""
    commit: str | None = None
    """Where that is of git."""
    removed: tuple[str, ...] = ()
    """Node ids of the base's tests with budgets that the head does not have."""
    skipped: tuple[str, ...] = ()
    """Node ids of tests that are skipped and have a figure at the base."""
    distributions: Versions = field(default_factory=dict)
    """Distributions with other versions than at the base; empty also if the base does not name its own."""


_SIZE: Final = whole(0, example=1073741824)


def _day(written: object) -> str:
    """A day as ISO 8601 has it, so that texts compare as days do."""
    try:
        return datetime.date.fromisoformat(str(written)).isoformat()
    except ValueError:
        raise ValueError("write a day, as in 2026-12-31") from None


@dataclass(frozen=True, slots=True)
class LockEntry(JsonObject):
    """What one test took, and what the figure was made with."""

    bytes: int = described("The peak of `metric`, of the rank that takes most.", kind=_SIZE)
    metric: Word | None = described("Which total it is.", None, kind=choice(METRICS))
    components: Mapping[Word, Difference] = described(
        "They add up to `bytes`.",
        {},
        kind=number_table(COMPONENTS, whole(-(2**63), example=1073741824), "component"),
    )
    gpus: Count | None = described("How many ranks the test ran as.", None, kind=whole(example=2))
    gpu: str | None = described("The card that was modelled.", None, kind=text("H100-80GB"))
    device: str | None = described("What it ran on; `analytic`: formulas.", None, kind=text("stand-in"))
    torch: str | None = described("The version of torch.", None, kind=text("2.13.0+cpu"))
    held_bytes: int | None = described(
        "What is still allocated when the body has ended; not there where it is not known.", None, kind=_SIZE
    )
    until: str | None = described(
        "The last day on which the test may take `bytes`, in place of its budget.",
        None,
        kind=parsed("day", _day),
    )
    reason: str | None = described("Why it may, until then.", None, kind=text("a new optimizer"))


@dataclass(frozen=True, slots=True)
class LockCheck(JsonObject):
    """One test compared with its entry."""

    required: ClassVar[tuple[str, ...]] = ("reason",)

    status: Annotated[str, choice(STATES)]
    """What has become of it since the entry was written."""
    reason: Lines = ""
    """Why, in a line."""
    base: LockEntry | None = None
    """The entry of the file; if the session records the figure, the new one. None for ``new``."""
    limit_bytes: int | None = None
    """What the entry allows; None if nothing was compared."""
    recorded: bool = False
    """Whether the session has written the figure."""
    allowed: bool | None = None
    """Of an entry with a last day: whether it holds, in place of the budget."""

    @property
    def holds(self) -> bool:
        """Whether the test takes no more than its entry allows."""
        return self.recorded or self.status in (UNCHANGED, SHRUNK)

    @property
    def has_shrunk(self) -> bool:
        """Whether the test takes less than its entry, which the session has left as it was."""
        return self.status == SHRUNK and not self.recorded

    @property
    def is_outdated(self) -> bool:
        """Whether the file needs an update."""
        return not self.recorded and self.status in (SHRUNK, NEW, NOT_COMPARABLE)

    @property
    def word(self) -> str:
        """What the file says of the test, in a word or two."""
        if self.allowed and self.base is not None:
            return f"until {self.base.until}"
        return "recorded" if self.recorded else self.status


def times_as_large(factor: float) -> str:
    """``factor`` in words, of a ``RunDifference``."""
    return f"{factor:.3g} times as large"


def growth_text(growth_bytes: int, base_bytes: int, than: str = "at the base") -> str:
    """``takes 1.20 GiB (4.1%) more than at the base``."""
    if not growth_bytes:
        return "takes what it took at the base"
    word = "more" if growth_bytes > 0 else "less"
    return f"takes {share_text(growth_bytes, base_bytes)} {word} than {than}"


def share_text(change_bytes: int, base_bytes: int) -> str:
    """``1.20 GiB (4.1%)``."""
    return gib_text(abs(change_bytes)) + (f" ({abs(change_bytes) / base_bytes:.1%})" if base_bytes else "")


def component_changes(head: Mapping[str, int], base: Mapping[str, int]) -> dict[str, int]:
    """Components that have changed, the largest change first; ``head`` minus ``base``, in bytes."""
    sizes = {name: head.get(name, 0) - base.get(name, 0) for name in {**base, **head}}
    return dict(sorted(((name, size) for name, size in sizes.items() if size), key=lambda one: -abs(one[1])))


def more_held(now_bytes: int | None, before_bytes: int | None) -> int:
    """By how much more is held when the body ends; 0 where one does not say."""
    return now_bytes - before_bytes if now_bytes is not None and before_bytes is not None else 0


def versions_text(changes: Versions, code: Callable[[str], str] = str, most: int = 3) -> str:
    """The first ``most`` of ``changes``, and how many more there are; ``code`` wraps each."""
    rest = len(changes) - most
    named = ", ".join(code(f"{name} {change.text}") for name, change in [*changes.items()][:most])
    return f"{named} and {rest} more" if rest > 0 else named
