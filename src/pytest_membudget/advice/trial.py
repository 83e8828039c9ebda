"""Trial: a run of a test's body with one change; Advice: the trials that reduced a test's memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

#: Trials that save less than this share of the excess over the budget are not listed.
_LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the body with one change."""

    change: str
    """Its name in ``changes.CHANGES``."""
    write: str
    """What to write, as code where possible."""
    bytes: int
    """The figure with the change."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The changes that were tried for one test, and the figures."""

    figure_bytes: int
    """The figure without a change: the peak of the budget's metric, or the component that is over."""
    limit_bytes: int
    """The limit of that figure."""
    trials: tuple[Trial, ...] = ()
    """The largest saving first."""
    untried: tuple[str, ...] = ()
    """Names of changes that were not tried because the time was up."""

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
    """Whether a saving is large enough to be listed for a test that is ``missing_bytes`` over its budget."""
    return saved_bytes > 0 and saved_bytes >= _LEAST_SHARE * missing_bytes


def savings_first(trials: Iterable[Trial], figure_bytes: int, missing_bytes: int) -> tuple[Trial, ...]:
    """The ``trials`` that save enough, the largest saving first; ``figure_bytes`` is without a change."""
    worth = [trial for trial in trials if is_worth_it(figure_bytes - trial.bytes, missing_bytes)]
    return tuple(sorted(worth, key=lambda trial: trial.bytes))
