"""BaseRun: estimates a base in another process."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...worker.client.process_start import start_process
from ...worker.protocol import Channel
from .exchange import Exchange
from .source import BaseSource, Invocation, Start

_PROCESS = "pytest_membudget.comparison.base.process"


class BaseRun:
    """Estimates a base in another process; ``close`` removes the process and what was made for it."""

    def __init__(self, source: BaseSource, invocation: Invocation) -> None:
        self._source = source
        self._invocation = invocation
        self.folder = Path(tempfile.mkdtemp(prefix="membudget-base-"))
        self.exchange = Exchange(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._has_begun = False
        self.notes: list[str] = []
        atexit.register(self.close)

    def begin(self, head: Mapping[str, Any]) -> None:
        """Start it, once; ``head``: what the head's session runs. A failure is the run's result."""
        if self._has_begun:
            return
        self._has_begun = True
        try:
            start = self._source.prepare(self.folder, self._invocation, head)
            self._start(start, head)
        except OSError as error:
            self.exchange.write_result({"trouble": str(error)})
            return
        self.notes += start.notes

    def close(self) -> None:
        """End the process and remove the worktree, wherever it is."""
        atexit.unregister(self.close)
        if not self.folder.is_dir():
            return
        self.exchange.end()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._has_begun:
            self._source.remove(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, start: Start, head: Mapping[str, Any]) -> None:
        scratch = self.folder / "scratch"
        scratch.mkdir()
        with self.exchange.held() as lock, self.exchange.output() as output:
            self._process, self._channel = start_process(
                _PROCESS,
                output,
                start.environment,
                python=start.python,
                import_path=start.import_path,
                keeps_open=[lock.fileno()],
            )
            self._channel.send(
                {
                    "args": list(start.args),
                    "dir": start.dir,
                    "files": list(start.files) if start.files is not None else None,
                    "folder": str(self.folder),
                    "scratch": str(scratch),
                    "top": str(self._source.top),
                    "worktree": str(start.worktree) if start.worktree is not None else None,
                    "selected": head["selected"],
                    "collected": head["collected"],
                }
            )
