"""A function run in a child process, with a time limit; whatever becomes of it, an answer."""

from __future__ import annotations

import os
import selectors
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ..process_end import end_text
from ..protocol import Channel
from .last_words import end_with_parent, places_of, tell_when_asked, users_lines
from .leaving import flush_output, leave

#: Seconds that a child that closes its pipe gets to end.
_PATIENCE = 1.0
#: Seconds between two looks at whether the child and the session are still there.
_INTERVAL = 0.2


class SessionGone(Exception):  # noqa: N818 - it is what has happened
    """Nobody is there to be answered."""


def run_in_child(
    body: Callable[[], dict[str, Any]], timeout: float, *, session: Channel | None = None
) -> dict[str, Any]:
    """What ``body`` returns, or ``{"outcome": "error", "reason": ...}`` if it crashed, left or hung.

    ``session``: where nothing is said meanwhile. Raises ``SessionGone`` when its other end closes.
    """
    read_fd, write_fd = os.pipe()
    with tempfile.NamedTemporaryFile() as file:
        last_words = Path(file.name)
        flush_output()
        pid = _fork()
        if pid == 0:
            os.close(read_fd)
            if session is not None:
                session.close()  # else its other end would not see the end of this process's parent
            _serve_as_child(body, write_fd, last_words)
        os.close(write_fd)
        try:
            return _Child(pid, read_fd, session).answer(timeout, last_words)
        finally:
            os.close(read_fd)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of threads; those of the worker's imports hold no lock we need
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve_as_child(body: Callable[[], dict[str, Any]], write_fd: int, last_words: Path) -> NoReturn:
    pid, status = os.getpid(), 1
    try:
        os.setpgid(0, 0)  # so that what the test starts ends with it
        end_with_parent()
        tell_when_asked(last_words)
        try:
            answer = body()
        except BaseException as error:
            what = f"{type(error).__name__} in the test's process: {error}"
            answer = {"outcome": "error", "reason": f"{what}\n{traceback.format_exc()}"}
        if os.getpid() == pid:  # and not a process that the test has forked
            Channel(-1, write_fd).send(answer)
            status = 0
    finally:
        leave(status)


class _Child:
    """The child as its parent sees it."""

    def __init__(self, pid: int, read_fd: int, session: Channel | None) -> None:
        self._pid = pid
        self._channel = Channel(read_fd, -1)
        self._session = session
        self._status: int | None = None

    def answer(self, timeout: float, last_words: Path) -> dict[str, Any]:
        """What it has sent within ``timeout`` seconds; it, and all that it has started, is gone then."""
        try:
            answer = self._wait(time.monotonic() + timeout)
        except TimeoutError:
            (place,) = places_of([(self._pid, last_words)])
            return {"outcome": "error", "reason": _hang_text(timeout, users_lines(place))}
        finally:
            status = self._end()
        if answer is None:
            return {
                "outcome": "error",
                "reason": f"the test's process {end_text(status)} before its test did",
            }
        return answer

    def _wait(self, deadline: float) -> dict[str, Any] | None:
        while self._status is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                answer = self._channel.receive(min(left, _INTERVAL))
            except TimeoutError:
                self._look()
            else:
                if answer is None:
                    self._wait_for_its_end()
                return answer
            if self._session is not None and _is_readable(self._session.read_fd):
                raise SessionGone
        try:
            return self._channel.receive(0)  # its last words; a process of its own may keep the pipe open
        except TimeoutError:
            return None

    def _wait_for_its_end(self) -> None:
        """Nothing will be answered: it is about to end, or has closed the pipe."""
        deadline = time.monotonic() + _PATIENCE
        while self._status is None and time.monotonic() < deadline:
            self._look()
            time.sleep(_INTERVAL / 20)

    def _look(self) -> None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None

    def _end(self) -> int:
        """End the child and its group; its status as ``subprocess`` counts."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            if self._status is None:  # it had not made its own group yet, or has ended by itself
                os.kill(self._pid, signal.SIGKILL)
        if self._status is None:
            _, self._status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(self._status)


def _is_readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))


def _hang_text(timeout: float, where: str) -> str:
    limit = f"it did not finish within {timeout:g} s (the time limit is [tool.membudget] timeout, in seconds)"
    return f"{limit}\nIt was at:\n{where}" if where else limit
