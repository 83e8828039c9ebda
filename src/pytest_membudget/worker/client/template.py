"""The session's side of the template: starts it, and asks it for workers."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from ..processes import end_process, start_process
from ..protocol import Channel, CopyRequest
from .order import Order, started_with

_MODULE = "pytest_membudget.worker.template"


class Template:
    """The template of a session, or the one of its controller; ``close`` ends only one's own."""

    def __init__(self, order: Order, address: str = "") -> None:
        """``order``: as of its workers. ``address``: of a template that another process has started."""
        self._order = order
        self._started: tuple[subprocess.Popen[bytes], Channel] | None = None
        self._folder = ""
        #: the path of the socket at which it is asked; empty before ``begin``
        self.address = address

    def begin(self) -> None:
        """Start it, if there is none."""
        if not self.address:
            self._folder = tempfile.mkdtemp(prefix="membudget-")
            try:
                self._start()
            finally:
                if self._started is None:
                    self._forget()

    def _start(self) -> None:
        address = str(Path(self._folder, "template"))
        environment, import_path = started_with(self._order, self._folder)
        with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryFile() as output:
            try:
                with _bindable(address) as path:
                    listener.bind(path)
            except OSError:  # a folder that has no sockets: workers are then started one by one
                return
            listener.listen()
            _, channel = self._started = start_process(
                _MODULE,
                output,  # not shown: a worker without the template reports what is wrong
                environment,
                import_path=import_path,
                inherited=[listener.fileno()],
            )
            self.address = address
            start = replace(self._order.start(self._folder), listener=listener.fileno())
            with suppress(BrokenPipeError):  # it has ended: workers find nobody to ask
                channel.send(start.to_json())

    def close(self) -> None:
        """End it; workers that it has made are ended by those who use them."""
        if self._started is not None:
            process, channel = self._started
            process.kill()
            end_process(process, channel)
            self._forget()

    def _forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._started, self.address = None, ""


class Copy:
    """A worker's process that the template at ``address`` is asked for; it may be there later, or never.

    With what is used here of ``subprocess.Popen``, once ``made`` is true.
    """

    def __init__(
        self,
        address: str,
        output: IO[bytes],
        environment: Mapping[str, str],
        import_path: Sequence[str],
        timeout: float,
    ) -> None:
        """As of ``start_process``. ``timeout``: seconds that the template may take to be ready."""
        self.pid = 0
        self.returncode: int | None = None
        #: on it the template sends which process it is, and how that has ended
        self._connection = socket.socket(socket.AF_UNIX)
        orders, answers = os.pipe(), os.pipe()
        theirs = (orders[0], answers[1])
        #: to the process; what is sent before it is there is kept for it
        self.channel = Channel(answers[0], orders[1])
        request = json.dumps(CopyRequest(environment, import_path).to_json())
        with suppress(OSError):  # it has ended, or is on another machine
            self._connection.settimeout(timeout)
            with _bindable(address) as path:
                self._connection.connect(path)
            socket.send_fds(self._connection, [b" "], [*theirs, output.fileno()])
            self._connection.sendall(request.encode() + b"\n")
        for descriptor in theirs:
            os.close(descriptor)
        self._is_settled = False

    def made(self) -> bool:
        """Whether there is one, once the template has made it."""
        with suppress(OSError):
            self.pid = _line(self._connection) or 0
        self._is_settled = True
        if not self.pid:
            self._connection.close()
            self.channel.close()
        return bool(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status as of ``subprocess``; ``subprocess.TimeoutExpired`` if it runs longer."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status = _line(self._connection)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a copy", timeout or 0.0) from None
            if status is None:  # the template is gone: nobody else reports it
                self.kill()
            self.returncode = -signal.SIGKILL if status is None else status
            self._connection.close()
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.pid and self.returncode is None:  # a pid of 0 is this process's group
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Do without it, unless ``made`` was called; one that comes later ends as it finds nobody."""
        if not self._is_settled:
            self._connection.settimeout(0)
            if self.made():
                self.kill()
                end_process(self, self.channel)


@contextmanager
def _bindable(path: str) -> Iterator[str]:
    """``path`` of a socket by its folder's descriptor: Linux takes 107 characters, and TMPDIR may be long."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def _line(connection: socket.socket) -> int | None:
    """The next number that the template sends; None if it is gone."""
    text = b""
    while not text.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            return None
        text += part
    return int(text)
