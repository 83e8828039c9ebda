"""The contract of a base that is estimated in a process: which interpreter runs which files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Invocation:
    """The command line of the head's session, which is repeated at the base."""

    args: Sequence[str]
    dir: str
    rootdir: str


@dataclass(frozen=True, slots=True)
class Start:
    """What the base's process is started with."""

    args: Sequence[str]
    """pytest's arguments."""
    dir: str
    files: Sequence[str] | None
    """The files and folders to collect; None for those of the settings."""
    import_path: Sequence[str]
    environment: Mapping[str, str]
    python: str
    """The interpreter."""
    worktree: Path | None = None
    """Of git: the process removes it where its session is killed."""
    notes: Sequence[str] = ()
    """For the session's summary."""


class BaseSource(Protocol):
    """Where a base's code and its libraries come from."""

    @property
    def shown(self) -> str:
        """For people."""

    @property
    def commit(self) -> str | None:
        """The commit whose files are estimated; None for those of the head's checkout."""

    @property
    def top(self) -> Path:
        """The folder of the head's checkout."""

    def prepare(self, folder: Path, invocation: Invocation, head: Mapping[str, Any]) -> Start:
        """Write what the process needs to ``folder``. Raises ``OSError`` with what is wrong.

        ``head``: what the head's session runs.
        """

    def remove(self, folder: Path) -> None:
        """Remove what ``prepare`` made elsewhere than in ``folder``; it may not have been called."""
