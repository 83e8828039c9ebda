"""Exchange: files by which the session, its xdist workers and the base's process exchange results."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

from ...atomic_files import write_json
from .source import Head

_HEAD, _RESULT, _OUTPUT, _ALIVE = "head.json", "result.json", "output", "alive"
#: Bytes of the output that ``complaint`` reads.
_OUTPUT_BYTES = 100_000
#: How pytest begins the lines on why a session cannot start.
_COMPLAINTS = ("ERROR: ", "ERROR ", "INTERNALERROR> ", "ImportError while loading conftest", "E  ")
#: Seconds between two looks for the result.
_INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class Exchange:
    """Files in ``folder``, each written atomically."""

    folder: Path

    def write_head(self, head: Head) -> None:
        """Write what the head's session runs; every xdist worker writes the same."""
        write_json(self.folder / _HEAD, asdict(head))

    def head(self) -> Head | None:
        """What ``write_head`` wrote; None if there is none yet."""
        written = self._read(_HEAD)
        return Head(**written) if written is not None else None

    def write_result(self, result: dict[str, Any]) -> None:
        """Write the base's results."""
        write_json(self.folder / _RESULT, result)

    def result(self) -> dict[str, Any] | None:
        """What ``write_result`` wrote; None if there is none yet."""
        result: dict[str, Any] | None = self._read(_RESULT)
        return result

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

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """The result; None if the base's process ended without one, or takes more than ``seconds``."""
        deadline = time.monotonic() + seconds
        while (result := self.result()) is None:
            if self._has_ended() or time.monotonic() > deadline:
                return self.result()  # it may have been written in between
            time.sleep(_INTERVAL)
        return result

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
