"""A process that has imported torch and made the device ready: a copy of it is a worker, at once.

A session starts it when it begins to collect, and asks it for each worker that it needs: for another card, or
in another process of pytest-xdist. Where a copy might see that torch was imported before, it is refused, and
the session starts that worker without it.
"""

import importlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NoReturn

from ..devices.stand_in.environment import CARDS_VARIABLE, INDUCTOR_VARIABLE
from .__main__ import Prepared, prepare
from .__main__ import main as main_of_worker
from .processes import leave
from .protocol import Channel, CopyRequest, Start, ready
from .server.child_process import fork
from .server.session_options import leave_out_of_garbage

_CHUNK_BYTES: Final = 65536
#: Descriptors that come with a request: the worker's two pipes, and its output.
_DESCRIPTORS: Final = 3
#: Variables that torch, NumPy, Python, glibc and this plugin may read before a worker has its order.
_READ_BEFORE: Final = (
    "ATEN_", "CUBLAS", "CUDA", "CUDNN", "GLIBC_", "GOMP_", "KMP_", "LANG", "LC_", "LD_", "MALLOC_",
    "MEMBUDGET_", "MKL", "NCCL_", "NPY_", "NUMPY", "NVIDIA_", "OMP_", "OPENBLAS", "PYTHON", "PYTORCH",
    "SYMPY", "TORCH", "TRITON",
)  # fmt: skip
#: Of these, what differs from worker to worker, and is read when a test begins.
_OWN: Final = (CARDS_VARIABLE, INDUCTOR_VARIABLE)


def main(read_fd: int, write_fd: int) -> None:
    """Serve the session until it closes the pipe; never returns."""
    environment = dict(os.environ)
    session = Channel(read_fd, write_fd)
    try:
        received = session.receive()
        if received is not None:
            start = Start.from_json(received)
            listener = socket.socket(fileno=start.listener)
            try:
                _Template(session, listener, environment, prepare(start)).serve()
            finally:
                shutil.rmtree(start.scratch, ignore_errors=True)  # the session was killed
    finally:
        leave(1)


class _Template:
    """Copies itself for each request that comes to the ``listener``."""

    def __init__(
        self, session: Channel, listener: socket.socket, environment: Mapping[str, str], prepared: Prepared
    ) -> None:
        """``environment``: the variables that this process was started with."""
        self._session = session
        self._listener = listener
        self._environment = environment
        self._path = list(sys.path)
        self._prepared = prepared
        #: the connections by which sessions wait for the ends of their workers
        self._waiting: set[socket.socket] = set()
        _import_pytest()
        leave_out_of_garbage()
        self._names = sorted({name.partition(".")[0] for name in sys.modules})

    def serve(self) -> None:
        """Serve requests until the session ends."""
        session = self._session.read_fd
        while session not in ready([session, self._listener.fileno()]):
            self._answer(self._listener.accept()[0])

    def _answer(self, connection: socket.socket) -> None:
        try:
            request, descriptors = _received(connection)
        except (OSError, ValueError):  # who has asked is gone
            connection.close()
            return
        added = [folder for folder in request.path if folder not in self._path]
        pid = fork() if self._is_fit(request, added) else None
        if pid == 0:
            self._become_worker(request, descriptors, connection, added)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(OSError):  # who has asked is gone, which the worker sees
            connection.sendall(b"%d\n" % (pid or 0))
        if pid is None:
            connection.close()
        else:
            self._waiting.add(connection)
            threading.Thread(target=self._report_end, args=(pid, connection), daemon=True).start()

    def _is_fit(self, request: CopyRequest, added: list[str]) -> bool:
        """Whether a process of that environment and import path would have imported the same."""
        kept = [folder for folder in request.path if folder in self._path]
        if kept != self._path or _early(request.environment) != _early(self._environment):
            return False
        return not any(_has_one_of(self._names, folder) for folder in added)

    def _become_worker(
        self, request: CopyRequest, descriptors: list[int], connection: socket.socket, added: list[str]
    ) -> NoReturn:
        try:
            os.setsid()
            self._session.close()
            for one in (self._listener, connection, *self._waiting):
                one.close()
            read_fd, write_fd, output = descriptors
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            for name in self._environment.keys() - request.environment.keys():
                del os.environ[name]
            for name, value in request.environment.items() - self._environment.items():
                os.environ[name] = value
            sys.path[:] = request.path
            tempfile.tempdir = None  # another variable may name it
            if self._prepared.observer is not None:
                for name in self._names:  # as it would have searched them
                    self._prepared.observer.find_spec(name, added)
            main_of_worker(read_fd, write_fd, self._prepared)
        finally:
            leave(1)

    def _report_end(self, pid: int, connection: socket.socket) -> None:
        """Wait for the end of a worker, and report to its session how it has ended."""
        _, status = os.waitpid(pid, 0)
        self._waiting.remove(connection)
        with connection, suppress(OSError):  # the session has ended
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _received(connection: socket.socket) -> tuple[CopyRequest, list[int]]:
    """A request, one JSON object in a line, and its descriptors."""
    text, descriptors, _, _ = socket.recv_fds(connection, _CHUNK_BYTES, _DESCRIPTORS)
    while not text.endswith(b"\n"):
        part = connection.recv(_CHUNK_BYTES)
        if not part:
            break
        text += part
    return CopyRequest.from_json(json.loads(text)), descriptors


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environment`` that may have been read before a worker has its order."""
    names = (name for name in environment if name.startswith(_READ_BEFORE) and name not in _OWN)
    return {name: environment[name] for name in names}


def _has_one_of(names: list[str], folder: str) -> bool:
    """Whether an import of one of the modules ``names`` might find it in ``folder``."""
    try:
        found = {entry.partition(".")[0] for entry in os.listdir(folder or os.curdir)}
    except OSError:
        return False
    return not found.isdisjoint(names)


def _import_pytest() -> None:
    """What pytest imports of itself, whatever its options are."""
    import _pytest.config

    from .server import serving  # noqa: F401

    for name in _pytest.config.default_plugins:
        importlib.import_module(f"_pytest.{name}")
