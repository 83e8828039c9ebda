"""Sessions of tests that need not import torch again: their processes are copies of one that has.

Importing torch, pytest and what the stand-in needs is most of what a small session costs. A session
that ``command`` starts takes ``warm_launcher`` for Python (``sys.executable``), which asks two processes
(``warm_template``) for a copy: one has what a session and its pytest-xdist workers import, the other what the
plugin's workers import, with the stand-in's libraries. It becomes an ordinary Python where it gets none.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

from pytest_membudget.devices.stand_in.building import CannotBuild, built_libraries
from pytest_membudget.devices.stand_in.environment import stand_in_environment
from pytest_membudget.devices.torch_build.installed import workers_torch
from pytest_membudget.hardware.gpus import find_gpu

#: What runs in a session's workers, and for the fixtures ``trace`` and ``stand_in``.
WITH_CARDS = (
    "pytest_membudget.worker.__main__",
    "pytest_membudget.worker.template",
    "tests.devices.server",
)
#: A session, and one that runs a base.
SESSIONS = ("pytest", "pytest_membudget.comparison.base.process")
#: Bytes of a script's first line that every Linux reads.
_LINE_BYTES = 120
_HERE = Path(__file__).parent


class WarmPython:
    """The warm Python of the processes that run tests: started when one of them first asks for it."""

    def __init__(self, *groups):
        """``groups``: of modules whose processes may be copies of one that has imported the same."""
        self._groups = groups
        self._folder = None
        self._alive = None
        self._processes = []

    def share(self):
        """The folder of it, which another process may ``join`` that ends before this one closes it."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="membudget-warm-"))
            os.mkfifo(self._folder / "alive")
            self._alive = os.open(self._folder / "alive", os.O_RDWR)
        return str(self._folder)

    def join(self, folder):
        """Be that of the process that shares ``folder``."""
        self._folder = Path(folder)

    def launcher(self, environment):
        """The program that stands for Python; None where this machine has no use for it.

        ``environment``: that of the sessions, without what each test adds.
        """
        if not is_possible():
            return None
        launcher = Path(self.share()) / "python"
        with FileLock(self._folder / "lock"):
            if not launcher.exists() and self._write_launcher():
                self._processes = [self._start(environment, modules) for modules in self._groups]
        return launcher if launcher.exists() else None

    def command(self, environment):
        """The beginning of a command that runs pytest."""
        launcher = self.launcher(environment)
        return [sys.executable if launcher is None else str(launcher), "-m", "pytest"]

    def close(self):
        """End it, and all copies that are left; nothing where another process shares it."""
        for process in self._processes:
            if process.poll() is not None:
                print("A warm Python has ended:", (self._folder / "log").read_text(), file=sys.stderr)
        if self._alive is not None:
            os.close(self._alive)
            for process in self._processes:
                process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write_launcher(self):
        first = f"#!{sys.executable} -IS\n"
        if len(first) > _LINE_BYTES or " " in sys.executable:
            return False
        (self._folder / "interpreter").write_text(sys.executable, encoding="utf-8")
        launcher = self._folder / "python"
        launcher.write_text(
            first + (_HERE / "warm_launcher.py").read_text(encoding="utf-8"), encoding="utf-8"
        )
        launcher.chmod(0o700)
        return True

    def _start(self, environment, modules):
        """It serves when it has imported all: who asks before that waits."""
        # as text: a file of ours below a copy's calls would be taken for code of the user's
        text = (_HERE / "warm_template.py").read_text(encoding="utf-8")
        with (
            socket.socket(socket.AF_UNIX) as listener,
            open(self._folder / "alive", "rb") as alive,  # its end is that of whoever shares the folder
            open(self._folder / "log", "ab") as log,
        ):
            listener.bind(str(self._folder / f"socket-{modules[0]}"))
            listener.listen(64)
            return subprocess.Popen(
                [sys.executable, "-c", text, self._folder, str(listener.fileno()), *modules],
                env=environment if "pytest" in modules else workers_environment(environment),
                stdin=alive,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[listener.fileno()],
            )


def workers_environment(environment):
    """The variables of a worker on one card; a copy's own cards are told to the library."""
    return stand_in_environment(
        built_libraries(environment),
        workers_torch(environment),
        find_gpu("A100-80GB"),
        1,
        environment,
        unlimited=True,
    )


def is_possible():
    """Whether a process can be copied here, and have the stand-in."""
    with contextlib.suppress(CannotBuild):
        built_libraries(os.environ)
        return hasattr(os, "pidfd_open") and os.path.exists("/proc/self/ns")
    return False
