"""JSON lines between the session and its worker."""

from __future__ import annotations

import json
import os
import select
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..json_object import JsonObject
from ..results.answer import Request

#: The event of a heartbeat: the worker runs tests and watches their time limits.
RUNNING: Final = "running"
_CHUNK_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Task(JsonObject):
    """A request as it is sent; its answer has the same number."""

    number: int
    request: Request


class Channel:
    """Two pipe ends: one JSON object a line, either way."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._rest = b""

    def send(self, message: Mapping[str, Any], *, reads: bool = False) -> None:
        """Write one message; ``BrokenPipeError`` if its other end is closed.

        ``reads``: what arrives meanwhile is read, for ``receive``: the other end may write until it is.
        """
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            if reads:
                self._read_until_writable()
            # a pipe that is writable takes PIPE_BUF bytes without blocking
            data = data[os.write(self.write_fd, data[: select.PIPE_BUF] if reads else data) :]

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end of the stream. ``TimeoutError`` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._is_readable(left):
                raise TimeoutError
            chunk = os.read(self.read_fd, _CHUNK_BYTES)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _is_readable(self, timeout: float | None) -> bool:
        with selectors.DefaultSelector() as selector:  # select.select refuses descriptors above 1,023
            selector.register(self.read_fd, selectors.EVENT_READ)
            return bool(selector.select(timeout))

    def _read_until_writable(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.write_fd, selectors.EVENT_WRITE)
            selector.register(self.read_fd, selectors.EVENT_READ)
            while self.write_fd not in [key.fd for key, _ in selector.select()]:
                chunk = os.read(self.read_fd, _CHUNK_BYTES)
                if not chunk:
                    raise BrokenPipeError
                self._rest += chunk

    def close(self) -> None:
        """Close both ends."""
        for fd in (self.read_fd, self.write_fd):
            os.close(fd)
