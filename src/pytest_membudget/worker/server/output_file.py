"""What a test prints, standard output and errors: kept in a file for the case that it fails."""

from __future__ import annotations

import fcntl
import os
import tempfile

from .stack_dump import is_internal

#: Bytes that the file may have before all but the last of them goes: a test may print without an end.
_MOST_BYTES = 64 * 2**20
#: Bytes that are looked at, lines that are reported, and characters of each.
TAIL_BYTES = 8000
TAIL_LINES = 12
LINE_LENGTH = 200


class OutputFile:
    """A file without a name, on disk and not in memory; gone when it is closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        fd = self._file.fileno()
        # so that later output goes to the end when the file has been cut
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)

    def take_over(self) -> None:
        """Let this process, and those that it will start, print into it."""
        for descriptor in (1, 2):
            os.dup2(self._file.fileno(), descriptor)

    def cut(self) -> None:
        """Leave the last of it, if it has become large."""
        fd = self._file.fileno()
        if os.fstat(fd).st_size > _MOST_BYTES:
            tail = self._tail()
            os.ftruncate(fd, 0)
            os.write(fd, tail)

    def last_lines(self) -> str:
        """The last of what was printed, without what says nothing to the user of a test."""
        lines = self._tail().decode(errors="replace").strip().splitlines()
        kept = [line[:LINE_LENGTH] for line in lines if not is_internal(line)]
        return "\n".join(kept[-TAIL_LINES:])

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def _tail(self) -> bytes:
        fd = self._file.fileno()
        return os.pread(fd, TAIL_BYTES, max(0, os.fstat(fd).st_size - TAIL_BYTES))
