"""Trial: a run of a test's body with one change; Advice: the trials that reduced a test's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from ..encoding.checks import Word
from ..encoding.json_object import JsonObject

#: Trials that save less than this share of the excess over the budget are not listed.
_LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Trial(JsonObject):
    """One run of the body with one change."""

    change: Word
    """Its name in ``changes.CHANGES``."""
    write: str
    """What to write, as code where possible."""
    bytes: int
    """The figure with the change."""


@dataclass(frozen=True, slots=True)
class Advice(JsonObject):
    """The changes that were tried for one test, and the figures."""

    required: ClassVar[tuple[str, ...]] = ("trials", "untried")

    figure_bytes: int
    """The figure without a change: the peak of the budget's metric, or the component that is over."""
    limit_bytes: int
    """The limit of that figure."""
    trials: tuple[Trial, ...] = ()
    """The largest saving first."""
    untried: tuple[Word, ...] = ()
    """Names of changes that were not tried because the time was up."""


def is_worth_it(saved_bytes: int, missing_bytes: int) -> bool:
    """Whether a saving is large enough to be listed for a test that is ``missing_bytes`` over its budget."""
    return saved_bytes > 0 and saved_bytes >= _LEAST_SHARE * missing_bytes


def savings_first(trials: Iterable[Trial], figure_bytes: int, missing_bytes: int) -> tuple[Trial, ...]:
    """The ``trials`` that save enough, the largest saving first; ``figure_bytes`` is without a change."""
    worth = [trial for trial in trials if is_worth_it(figure_bytes - trial.bytes, missing_bytes)]
    return tuple(sorted(worth, key=lambda trial: trial.bytes))
