"""Files in which a rank's process leaves its state for the process that watches it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...atomic_files import write_json
from ..server.one_test.output_file import LINE_LENGTH, TAIL_BYTES, TAIL_LINES
from ..server.stack_dump import is_internal

#: A rank gets the session's import path before it imports anything.
_BOOT = (
    "import json, sys; order = json.load(open(sys.argv[1])); sys.path[:] = order['path']; "
    "from pytest_membudget.worker.ranks.rank import main; main(order, int(sys.argv[2]))"
)


@dataclass(frozen=True, slots=True)
class RankFiles:
    """The files of one rank."""

    folder: Path
    rank: int

    def path(self, suffix: str) -> Path:
        """``where``: its stack when it was asked for it; ``out``: its output."""
        return self.folder / f"rank-{self.rank}.{suffix}"

    def write(self, suffix: str, data: Any) -> None:
        """Write ``data`` as JSON, atomically."""
        write_json(self.path(suffix), data)

    def _read(self, suffix: str) -> Any:
        try:
            return json.loads(self.path(suffix).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def answer(self) -> dict[str, Any] | None:
        """Its answer; None if there is none yet."""
        answer: dict[str, Any] | None = self._read("json")
        return answer

    def pid(self) -> int | None:
        """The pid of its process, which leads its own process group."""
        pid: int | None = self._read("pid")
        return pid

    def has_begun(self) -> bool:
        """Whether its process group is ready and its test has begun."""
        return self.path("began").exists()

    def end_group(self) -> None:
        """Kill its process and all that it has started."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def begin(self) -> None:
        """Record that the process group is ready and the test begins; output from here on is the test's."""
        self.write("began", self.path("out").stat().st_size)

    def last_lines(self) -> str:
        """The end of its output; before it has any, what Python printed."""
        start = self._read("began") or 0
        logs = sorted(self.folder.glob(f"logs/*/attempt_*/{self.rank}/std*.log"))
        texts = [_tail(path, 0) for path in logs]
        if self.path("out").exists():
            texts.append(_tail(self.path("out"), start))
        lines = [line for text in texts for line in text.splitlines() if not is_internal(line)]
        return "\n".join(line[:LINE_LENGTH] for line in lines[-TAIL_LINES:])


def rank_arguments(folder: Path, order: Mapping[str, Any]) -> list[str]:
    """Python's arguments for a rank of ``order`` that ends with this process."""
    path = folder / "order.json"
    import_path = [os.path.abspath(entry) for entry in sys.path]
    path.write_text(json.dumps({**order, "path": import_path}), encoding="utf-8")
    return ["-c", _BOOT, str(path), str(os.getpid())]


def end_groups(folder: Path) -> None:
    """End all ranks that were started with ``folder``."""
    for path in folder.glob("rank-*.pid"):
        RankFiles(folder, int(path.stem.removeprefix("rank-"))).end_group()


def _tail(path: Path, start: int) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
