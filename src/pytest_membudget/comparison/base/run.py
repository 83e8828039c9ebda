"""BaseRun: estimates the base of a git reference in another process and a worktree."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...worker.client.process_start import start_process
from ...worker.protocol import Channel
from ..places import Places
from .exchange import Exchange
from .foreign_imports import VARIABLE
from .git import BaseCommit, add_worktree, remove_worktree, submodules_in

_PROCESS = "pytest_membudget.comparison.base.process"
_PLUGIN = "pytest_membudget.comparison.base.foreign_imports"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The command line of the head's session, which is repeated at the base."""

    args: Sequence[str]
    dir: str
    rootdir: str


class BaseRun:
    """Estimates a base in another process; ``close`` removes the process and the worktree."""

    def __init__(self, base: BaseCommit, invocation: Invocation) -> None:
        self._base = base
        self._invocation = invocation
        self.folder = Path(tempfile.mkdtemp(prefix="membudget-base-"))
        self.exchange = Exchange(self.folder)
        # named as the checkout: tools use the folder's name
        self._worktree = self.folder / "worktree" / base.top.name
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
            add_worktree(self._base, self._worktree)
            self._start(head)
        except OSError as error:
            self.exchange.write_result({"trouble": str(error)})
            return
        missing = submodules_in(self._worktree)
        if missing:
            self.notes.append(f"the base's submodules are not checked out: {', '.join(missing)}")

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
            remove_worktree(self._base.top, self._worktree)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, head: Mapping[str, Any]) -> None:
        places = Places(str(self._base.top), str(self._worktree))
        scratch = self.folder / "scratch"
        scratch.mkdir()
        with self.exchange.held() as lock, self.exchange.output() as output:
            self._process, self._channel = start_process(
                _PROCESS,
                output,
                self._environment(places),
                import_path=places.import_path(sys.path, head["roots"]),
                keeps_open=[lock.fileno()],
            )
            self._channel.send(self._order(places, head, str(scratch)))

    def _order(self, places: Places, head: Mapping[str, Any], scratch: str) -> dict[str, Any]:
        invocation = self._invocation
        folder = places.at_base(invocation.dir)
        args = [places.argument(arg) for arg in invocation.args]
        rootdir = f"--rootdir={places.at_base(invocation.rootdir)}"
        files = head["files"]
        return {
            "args": ["-p", _PLUGIN, rootdir, *args],
            "dir": folder if os.path.isdir(folder) else str(self._worktree),
            "folder": str(self.folder),
            "scratch": scratch,
            "top": str(self._base.top),
            "worktree": str(self._worktree),
            "selected": head["selected"],
            "collected": head["collected"],
            "files": [places.at_base(file) for file in files] if files is not None else None,
        }

    def _environment(self, places: Places) -> dict[str, str]:
        watch = json.dumps({"head": str(self._base.top), "folder": str(self.folder)})
        environment = {**os.environ, VARIABLE: watch}
        path = os.environ.get("PYTHONPATH")
        if path:
            entries = (places.at_base(os.path.abspath(entry)) for entry in path.split(os.pathsep) if entry)
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        return environment
