"""The output of a test, stdout and stderr, kept in a file for messages of failures."""

import fcntl
import os
import tempfile

from ..stack_dump import is_internal

#: Most bytes of the file before it is cut to its end: a test may print endlessly.
_MOST_BYTES = 64 * 2**20
#: Bytes that are read, lines that are reported, and characters of each.
_TAIL_BYTES = 8000
_TAIL_LINES = 12
_LINE_LENGTH = 200


class OutputFile:
    """A temporary file without a name, on disk and not in memory."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._start = 0
        fd = self.file.fileno()
        # so that later output goes to the end when the file has been cut
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)

    def take_over(self) -> None:
        """Redirect the output of this process and its later children into it."""
        for descriptor in (1, 2):
            os.dup2(self.file.fileno(), descriptor)

    def cut(self) -> None:
        """Cut it to its end, if it has become large."""
        fd = self.file.fileno()
        if os.fstat(fd).st_size > _MOST_BYTES:
            tail = self._tail()
            os.ftruncate(fd, 0)
            os.write(fd, tail)

    def forget(self, end: int) -> None:
        """Report only what was written after the first ``end`` bytes."""
        self._start = end

    def last_lines(self) -> str:
        """The end of the output, without lines that mean nothing to users."""
        lines = self._tail().decode(errors="replace").strip().splitlines()
        kept = [line[:_LINE_LENGTH] for line in lines if not is_internal(line)]
        return "\n".join(kept[-_TAIL_LINES:])

    def close(self) -> None:
        """Free the disk space."""
        self.file.close()

    def _tail(self) -> bytes:
        fd = self.file.fileno()
        return os.pread(fd, _TAIL_BYTES, max(self._start, os.fstat(fd).st_size - _TAIL_BYTES))
