"""Exchange: files by which the session, its xdist workers and the base's process exchange results."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from ...atomic_files import write_json
from ...json_object import JsonObject
from .base_results import Base

_HEAD, _BASE, _OUTPUT, _ALIVE = "head.json", "base.json", "output", "alive"
#: Bytes of the output that ``complaint`` reads.
_OUTPUT_BYTES = 100_000
#: How pytest begins the lines on why a session cannot start.
_COMPLAINTS = ("ERROR: ", "ERROR ", "INTERNALERROR> ", "ImportError while loading conftest", "E  ")
#: Seconds between two looks for the result.
_INTERVAL = 0.05


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
class Head(JsonObject):
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
class Exchange:
    """Files in ``folder``, each written atomically."""

    folder: Path

    def write_head(self, head: Head) -> None:
        """Write what the head's session runs; every xdist worker writes the same."""
        write_json(self.folder / _HEAD, head.to_json())

    def head(self) -> Head | None:
        """What ``write_head`` wrote; None if there is none yet."""
        written = self._read(_HEAD)
        return Head.from_json(written) if written is not None else None

    def write_base(self, base: Base) -> None:
        """Write the base's results, or why there are none."""
        write_json(self.folder / _BASE, base.to_json())

    def base(self) -> Base | None:
        """What ``write_base`` wrote; None if there is none yet."""
        written = self._read(_BASE)
        return Base.from_json(written) if written is not None else None

    def output(self) -> IO[bytes]:
        """A new file for the output of the base's run."""
        return (self.folder / _OUTPUT).open("wb")

    def complaint(self) -> str:
        """Why there is no result: the output's first line with an error of pytest, else its last line."""
        text = b""
        with suppress(OSError), (self.folder / _OUTPUT).open("rb") as file:
            text = file.read(_OUTPUT_BYTES)
        return complaint_in(text.decode(errors="replace"))

    @contextmanager
    def held(self) -> Iterator[IO[bytes]]:
        """A file lock; the kernel releases it when its process ends."""
        with (self.folder / _ALIVE).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file

    def wait(self, seconds: float) -> Base | None:
        """The base; None if its process ended without writing it, or takes more than ``seconds``."""
        deadline = time.monotonic() + seconds
        while (base := self.base()) is None:
            if self._has_ended() or time.monotonic() > deadline:
                return self.base()  # it may have been written in between
            time.sleep(_INTERVAL)
        return base

    def _has_ended(self) -> bool:
        if not self.folder.is_dir():
            return True
        try:
            with (self.folder / _ALIVE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # locked, or not there yet
            return False
        return True

    def _read(self, name: str) -> Any:
        with suppress(FileNotFoundError):
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        return None


def complaint_in(output: str) -> str:
    """The first line of a session's ``output`` with an error of pytest, unfolded; else its last line."""
    lines = [line for line in output.splitlines() if line.strip()] or ["its run ended without output"]
    first = next((n for n, line in enumerate(lines) if line.strip().startswith(_COMPLAINTS)), len(lines) - 1)
    rest = takewhile(lambda line: line.startswith(" "), lines[first + 1 :])
    return " ".join(line.strip() for line in (lines[first], *rest))
