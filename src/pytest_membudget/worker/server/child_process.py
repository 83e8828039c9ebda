"""Runs a function in a child process with a time limit; there is an answer even if it crashes."""

import contextlib
import faulthandler
import fcntl
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ...json_object import Misfit
from ...results.answer import FAILED, Answer, failed
from ..processes import end_text, end_with_parent, flush_output, leave
from ..protocol import Channel, ready
from ..time_limit import Watch
from .stack_dump import dump_stack_on_signal, hang_text, is_internal, stacks_of

#: Most bytes of the file before it is cut to its end: a test may print endlessly.
_MOST_BYTES = 64 * 2**20
#: Bytes that are read, lines that are reported, and characters of each.
_TAIL_BYTES = 8000
_TAIL_LINES = 12
_LINE_LENGTH = 200


class OutputFile:
    """A temporary file without a name, on disk and not in memory."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._start = 0
        fd = self.file.fileno()
        # so that later output goes to the end when the file has been cut
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)

    def take_over(self) -> None:
        """Redirect the output of this process and its later children into it."""
        for descriptor in (1, 2):
            os.dup2(self.file.fileno(), descriptor)

    def cut(self) -> None:
        """Cut it to its end, if it has become large."""
        fd = self.file.fileno()
        if os.fstat(fd).st_size > _MOST_BYTES:
            tail = self._tail()
            os.ftruncate(fd, 0)
            os.write(fd, tail)

    def forget(self, end: int) -> None:
        """Report only what was written after the first ``end`` bytes."""
        self._start = end

    def last_lines(self) -> str:
        """The end of the output, without lines that mean nothing to users."""
        lines = self._tail().decode(errors="replace").strip().splitlines()
        kept = [line[:_LINE_LENGTH] for line in lines if not is_internal(line)]
        return "\n".join(kept[-_TAIL_LINES:])

    def close(self) -> None:
        """Free the disk space."""
        self.file.close()

    def _tail(self) -> bytes:
        fd = self.file.fileno()
        return os.pread(fd, _TAIL_BYTES, max(self._start, os.fstat(fd).st_size - _TAIL_BYTES))


#: Seconds that a child gets to end after it has closed its pipe.
_END_TIMEOUT = 1.0
_TO_OTHERS = "let it write to descriptors that it has opened"
PIPE_WRITTEN = f"the test's process has written into the pipe of its answer; {_TO_OTHERS}"
_PIPE_CLOSED = (
    "the test's process has closed the pipe of its answer; let it close descriptors that it has opened, and "
    "no others"
)
#: Seconds between two checks whether the child and the session are alive.
INTERVAL = 0.2
#: Calls of a traceback that are reported, the innermost.
_CALLS = 6
#: From Python 3.14 on, a crash also lists the interpreter's calls, which would leave no room for the output.
_PYTHON_ONLY: dict[str, Any] = {"c_stack": False} if sys.version_info >= (3, 14) else {}


class SessionGone(Exception):  # noqa: N818 - named for the event
    """The session has ended, so that nobody reads an answer."""


def run_in_child(body: Callable[[], Answer], timeout: float) -> Answer:
    """What ``body`` returns, or an answer with the reason if it crashed, exited or hung."""
    child = Child(body, timeout)
    try:
        while (answer := child.look()) is None:
            ready([child.fd], timeout=INTERVAL)
        return answer
    finally:
        child.end()


def fork() -> int:
    """As ``os.fork``, without a warning."""
    with warnings.catch_warnings():
        # Python 3.12 and later warn of threads; threads of the worker's imports hold no lock we need
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve_as_child(
    body: Callable[[], Answer], write_fd: int, stack_file: Path, output: OutputFile
) -> NoReturn:
    pid, status = os.getpid(), 1
    try:
        os.setpgid(0, 0)  # processes that the test starts end with it
        end_with_parent()
        output.take_over()
        faulthandler.enable(2, all_threads=False, **_PYTHON_ONLY)  # prints the stack of a crash
        dump_stack_on_signal(stack_file)
        try:
            answer = body()
        except BaseException as error:
            what = f"{type(error).__name__} in the test's process: {error}"
            answer = failed(f"{what}\n{traceback.format_exc(limit=-_CALLS)}")
        if os.getpid() == pid:  # not in a process that the test has forked
            Channel(-1, write_fd).send(answer.to_json())
            status = 0
    finally:
        leave(status)


class Child:
    """A child process that runs ``body``. ``end`` kills it and all processes that it has started."""

    def __init__(self, body: Callable[[], Answer], timeout: float, session: Channel | None = None) -> None:
        """``timeout``: seconds, see ``time_limit``. ``session``: the parent's channel, which it closes."""
        with contextlib.ExitStack() as files:
            self._stack_file = Path(files.enter_context(tempfile.NamedTemporaryFile()).name)
            self._output = files.enter_context(contextlib.closing(OutputFile()))
            #: readable when ``look`` should be called
            self.fd, write_fd = os.pipe()
            files.callback(os.close, self.fd)
            flush_output()
            try:
                self._pid = fork()
                if self._pid == 0:
                    os.close(self.fd)
                    if session is not None:
                        session.close()  # otherwise the session would not notice the end of the parent
                    _serve_as_child(body, write_fd, self._stack_file, self._output)
            finally:
                os.close(write_fd)
            self._files = files.pop_all()  # until ``end``
        self._channel = Channel(self.fd, -1)
        self._code: int | None = None
        self._is_group_killed = False
        self._watch = Watch(self._pid, timeout)

    def look(self) -> Answer | None:
        """Its answer; None while it runs within its time limit.

        The ``details`` of an error have the end of the test's output.
        """
        self._output.cut()
        answer = self._look()
        printed = self._output.last_lines() if answer is not None and answer.outcome == FAILED else ""
        if answer is None or not printed:
            return answer
        details = (answer.details, f"The last of its output:\n{printed}")
        return replace(answer, details="\n".join(filter(None, details)))

    def _look(self) -> Answer | None:
        is_running = self._poll() is None  # before its answer is read: one that has ended writes no more
        try:
            message = self._channel.receive(0)
            answer = Answer.from_json(message) if message is not None else None
        except (ValueError, Misfit):  # the test has written to the answer's descriptor
            return failed(PIPE_WRITTEN)
        except TimeoutError:  # a process that it has started may keep the pipe open
            if is_running:
                overrun = self._watch.look()
                if overrun is None:
                    return None
                (stack,) = stacks_of([(self._pid, self._stack_file)])
                return failed(hang_text(overrun, stack))
            answer = None
        if answer is None:
            has_ended = self._ends_by_itself()
            code = self._end_group()
            # else it runs on without its pipe
            return failed(_end_text(code) if has_ended else _PIPE_CLOSED)
        return answer

    def end(self) -> None:
        """Kill it and its process group, if they exist."""
        self._end_group()
        self._files.close()

    def _ends_by_itself(self) -> bool:
        """Wait for the end of a child that will not answer: it ends, or has closed the pipe."""
        deadline = time.monotonic() + _END_TIMEOUT
        while self._poll() is None and time.monotonic() < deadline:
            time.sleep(INTERVAL / 20)
        return self._code is not None

    def _poll(self, options: int = os.WNOHANG) -> int | None:
        """Its exit status as of ``subprocess``; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self._pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def _end_group(self) -> int:
        """Kill the child and its group, once; returns its exit status."""
        if not self._is_group_killed:
            self._is_group_killed = True
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                if self._code is None:  # it has no group yet, or has ended
                    os.kill(self._pid, signal.SIGKILL)
        code = self._poll(options=0)
        assert code is not None
        return code


def _end_text(returncode: int) -> str:
    what = f"the test's process {end_text(returncode)} before its test did"
    if returncode >= 0:
        return f"{what}; let the body return, raise or call pytest.skip, and not leave by os._exit"
    if returncode == -signal.SIGKILL:
        return f"{what}; the kernel does that when the machine's memory is full"
    return what
