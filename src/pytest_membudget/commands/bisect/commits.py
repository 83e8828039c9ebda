"""The commits between two, as points of a bisection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...comparison.base.git import history_between


@dataclass(frozen=True, slots=True)
class Commits:
    """A good commit and those after it, up to the bad one."""

    hashes: Sequence[str]
    names: Sequence[str]
    what: str = "commit"

    @contextmanager
    def base(self, number: int) -> Iterator[str]:
        """The commit itself: it is an ancestor of HEAD."""
        yield self.hashes[number]


def commits_between(folder: Path, good: str, bad: str) -> Commits:
    """The commits after ``good`` up to ``bad``, by first parents. Raises ``UsageMistake``."""
    found = history_between(folder, good, bad)
    return Commits([commit for commit, _ in found], [f"{commit[:10]} {subject}" for commit, subject in found])
