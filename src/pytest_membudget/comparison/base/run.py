"""BaseRun: estimates a base in another process."""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from ...worker.processes import start_process
from ...worker.protocol import Channel
from .exchange import Base, Exchange, Head, base_without_figures
from .git import remove_worktree, worktree_in
from .invocation import Invocation
from .sources import BaseSource, Start

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
        self._watch: threading.Thread | None = None
        self._has_begun = False
        self.notes: list[str] = []
        atexit.register(self.close)

    def begin(self, head: Head) -> None:
        """Start it, once; ``head``: what the head's session runs. A failure is the run's result."""
        if self._has_begun:
            return
        self._has_begun = True
        try:
            start = self._source.prepare(self.folder, self._invocation, head)
            self._start(start)
        except OSError as error:
            self.exchange.write(base_without_figures(str(error)))
            return
        self.notes += start.notes

    def close(self) -> None:
        """End the process and remove the worktree, wherever it is."""
        atexit.unregister(self.close)
        if not self.folder.is_dir():
            return
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._watch is not None:
                self._watch.join()
            self._process.wait()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._has_begun:
            remove_worktree(self._source.top, worktree_in(self.folder, self._source.top))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, start: Start) -> None:
        with self.exchange.output() as output:
            self._process, self._channel = start_process(
                _PROCESS, output, start.environment, python=start.python, import_path=start.import_path
            )
        self._channel.send(start.order.to_json())
        self._watch = threading.Thread(target=self._report_end, args=(self._process.pid,), daemon=True)
        self._watch.start()

    def _report_end(self, pid: int) -> None:
        """Write why there is no result if the process ends without one: workers of pytest-xdist wait too."""
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if self.exchange.read(Base) is None:
            self.exchange.write(base_without_figures(self.exchange.complaint()))
