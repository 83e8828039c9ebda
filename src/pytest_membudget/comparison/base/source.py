"""What the head's session runs, and what the process that repeats it at the base is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invocation:
    """How the head's session was started; pytest-xdist's controller sends it to its workers."""

    args: list[str]
    """pytest's command line."""
    dir: str
    """The folder in which pytest was started."""
    rootdir: str
    exchange: str | None = None
    """The folder in which the base's results will be; None without a base."""


@dataclass(frozen=True, slots=True)
class Head:
    """The tests of the head's session."""

    selected: Sequence[str]
    """Node ids of the tests with budgets that run."""
    collected: Sequence[str]
    """All tests with budgets that were collected."""
    roots: Sequence[str]
    """Folders of the checkout that its modules were imported from."""
    files: Sequence[str] | None = None
    """The files and folders to collect; None for those of the settings."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the base's process is started with."""

    args: Sequence[str]
    """pytest's arguments."""
    dir: str
    head: Head
    """With the base's paths."""
    import_path: Sequence[str]
    environment: Mapping[str, str]
    python: str
    """The interpreter."""
    worktree: str | None = None
    """Of git: the process removes it where its session is killed."""
    notes: Sequence[str] = ()
    """For the session's summary."""
