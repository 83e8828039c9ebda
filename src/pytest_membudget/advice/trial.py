"""Trial: a run of a test's body with one change; Advice: the trials of one test that lowered its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

#: A change that saves a smaller part of what is missing is not listed.
_LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the body with one change."""

    change: str
    """Its name in ``changes.CHANGES``."""
    write: str
    """What to write to make the change."""
    bytes: int
    """The figure with the change."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What was tried for one test."""

    figure_bytes: int
    """The figure without a change: the peak of the budget's metric, or the component that is over."""
    limit_bytes: int
    """What it should be at most."""
    trials: tuple[Trial, ...] = ()
    """The largest saving first."""
    untried: tuple[str, ...] = ()
    """Names of changes that there was no time for."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types only."""
        trials = [asdict(trial) for trial in self.trials]
        sizes = {"figure_bytes": self.figure_bytes, "limit_bytes": self.limit_bytes}
        return {**sizes, "trials": trials, "untried": list(self.untried)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Advice:
        """The inverse of ``to_json``."""
        trials = tuple(Trial(**trial) for trial in data["trials"])
        return cls(data["figure_bytes"], data["limit_bytes"], trials, tuple(data["untried"]))


def is_worth_it(saved_bytes: int, missing_bytes: int) -> bool:
    """Whether a saving counts where ``missing_bytes`` have to go to be within the budget."""
    return saved_bytes > 0 and saved_bytes >= _LEAST_SHARE * missing_bytes


def savings_first(trials: Iterable[Trial], figure_bytes: int, missing_bytes: int) -> tuple[Trial, ...]:
    """Of ``trials`` those that save enough of ``figure_bytes``, the largest saving first."""
    worth = [trial for trial in trials if is_worth_it(figure_bytes - trial.bytes, missing_bytes)]
    return tuple(sorted(worth, key=lambda trial: trial.bytes))
