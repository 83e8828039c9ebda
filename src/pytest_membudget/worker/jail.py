"""A function run in a child process, with a time limit; whatever becomes of it, an answer."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import IO, Any

from ..protocol import Channel

#: Seconds by which the child's own traceback comes before the parent ends it.
_EARLY = 0.5


def run_in_child(body: Callable[[], dict[str, Any]], timeout: float) -> dict[str, Any]:
    """What ``body`` returns, or ``{"outcome": "error", "reason": ...}`` if it crashed, left or hung."""
    read_fd, write_fd = os.pipe()
    with tempfile.TemporaryFile() as last_words:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = _fork()
        if pid == 0:
            os.close(read_fd)
            _child(body, write_fd, last_words, timeout)
        os.close(write_fd)
        return _parent(pid, read_fd, last_words, timeout)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 and later warn of threads; those of the worker's imports hold no lock we need
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _child(body: Callable[[], dict[str, Any]], write_fd: int, last_words: IO[bytes], timeout: float) -> None:
    status = 1
    try:
        os.setpgid(0, 0)  # so that what the test starts ends with it
        faulthandler.dump_traceback_later(max(timeout - _EARLY, timeout / 2), file=last_words)
        answer = body()
        faulthandler.cancel_dump_traceback_later()
        Channel(-1, write_fd).send(answer)
        status = 0
    except BaseException:
        Channel(-1, write_fd).send({"outcome": "error", "reason": traceback.format_exc()})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _parent(pid: int, read_fd: int, last_words: IO[bytes], timeout: float) -> dict[str, Any]:
    channel = Channel(read_fd, -1)
    deadline = time.monotonic() + timeout
    try:
        answer = channel.receive(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        _end(pid)
        return {"outcome": "error", "reason": _hang_text(timeout, last_words)}
    finally:
        os.close(read_fd)
    _end_group(pid)
    _, status = os.waitpid(pid, 0)
    return answer if answer is not None else {"outcome": "error", "reason": _death_text(status)}


def _end(pid: int) -> None:
    _end_group(pid)
    os.waitpid(pid, 0)


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        try:
            os.kill(pid, signal.SIGKILL)  # it had not made its own group yet
        except ProcessLookupError:
            pass  # it has ended by itself


def _hang_text(timeout: float, last_words: IO[bytes]) -> str:
    last_words.seek(0)
    where = last_words.read().decode(errors="replace").strip()
    limit = f"it did not finish within {timeout:g} s (the time limit is [tool.membudget] timeout, in seconds)"
    return f"{limit}; it was at:\n{where}" if where else limit


def _death_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"the test's process was ended by signal {number} ({signal.Signals(number).name})"
    return f"the test's process left with status {os.WEXITSTATUS(status)} before the test had ended"
