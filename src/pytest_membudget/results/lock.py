"""LockCheck: a test's figure compared with its entry in membudget.lock.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from ..components import COMPONENTS, METRICS
from ..json_object import Count, Difference, JsonObject, Lines, Word, one_of
from ..user_input.fields import described
from ..user_input.kinds import choice, number_table, text, whole

LOCK_FILE: Final = "membudget.lock.yaml"
"""In pytest's root folder, next to pyproject.toml."""
UPDATE_COMMAND: Final = "pytest --membudget --membudget-update"
RAISE_COMMAND: Final = f"{UPDATE_COMMAND}=raise"

KEPT: Final = "kept"
GROWN: Final = "grown"
SHRUNK: Final = "shrunk"
NEW: Final = "new"
NOT_COMPARABLE: Final = "not-comparable"
RECORDED: Final = "recorded"
LOCK_STATUSES: Final = (KEPT, GROWN, SHRUNK, NEW, NOT_COMPARABLE, RECORDED)
HELD: Final = (KEPT, SHRUNK, RECORDED)
"""With these the test takes no more than its entry allows."""
OUTDATED: Final = (SHRUNK, NEW, NOT_COMPARABLE)
"""With these the file needs an update."""

_SIZE: Final = whole(0, example=1073741824)


@dataclass(frozen=True, slots=True)
class LockEntry(JsonObject):
    """What one test took, and what the figure was made with."""

    bytes: int = described(_SIZE, "The peak of `metric`, of the rank that takes most.")
    metric: Word = described(choice(METRICS), "Which total it is.")
    components: Mapping[Word, Difference] = described(
        number_table(COMPONENTS, whole(-(2**63), example=1073741824), "component"), "They add up to `bytes`."
    )
    gpus: Count = described(whole(example=2), "How many ranks the test ran as.")
    gpu: str = described(text("H100-80GB"), "The card that was modelled.")
    device: str = described(text("fake"), "What it ran on.")
    torch: str = described(text("2.13.0+cpu"), "The version of torch.")


@dataclass(frozen=True, slots=True)
class LockCheck(JsonObject):
    """One test compared with its entry."""

    required: ClassVar[tuple[str, ...]] = ("reason",)

    status: Annotated[str, one_of(LOCK_STATUSES)]
    reason: Lines = ""
    entry: LockEntry | None = None
    """Of the file; if the session records the figure, the new one. None for ``new``."""
    limit_bytes: int | None = None
    """What the entry allows; None if nothing was compared."""
    changes: tuple[str, ...] = ()
    """Of a test that has grown a line for each component that has changed, the largest change first."""
