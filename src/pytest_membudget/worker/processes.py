"""Starts Python processes with two pipes to each, ends them, and describes how they ended."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, NoReturn, Protocol

from .protocol import Channel

#: The module of a worker's process.
WORKER_MODULE = "pytest_membudget.worker.__main__"
#: The process gets the session's import path before it imports anything.
_BOOT = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(int(sys.argv[3]), int(sys.argv[4]))"
)
#: ``linux/prctl.h``
_PR_SET_PDEATHSIG = 1
#: Seconds that a process gets to end by itself.
_END_TIMEOUT = 2.0
#: Bytes of its output that a failure shows.
_TAIL_BYTES = 2000


def start_process(
    module: str,
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
    *,
    python: str | None = None,
    import_path: Sequence[str] | None = None,
    inherited: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], Channel]:
    """A process that runs ``main(read_fd, write_fd)`` of ``module``, and the channel to it.

    Its output goes to ``output``. ``environment``, ``python`` (the interpreter) and ``import_path`` replace
    this process's. ``inherited``: further descriptors that it gets.
    """
    read_orders, write_orders = os.pipe()
    read_answers, write_answers = os.pipe()
    path = json.dumps([os.path.abspath(entry) for entry in sys.path] if import_path is None else import_path)
    options = interpreter_options()
    options += _against_defects() if python in (None, sys.executable) else []
    process = subprocess.Popen(
        [python or sys.executable, *options, "-c", _BOOT, path, module, f"{read_orders}", f"{write_answers}"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(environment) if environment is not None else None,
        pass_fds=(read_orders, write_answers, *inherited),
        start_new_session=True,  # Ctrl-C is for the session, which ends the process
    )
    os.close(read_orders)
    os.close(write_answers)
    return process, Channel(read_answers, write_orders)


class Process(Protocol):
    """What workers' processes have in common: those of ``subprocess``, and copies of the template."""

    pid: int
    returncode: int | None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status; ``subprocess.TimeoutExpired`` if it runs longer."""

    def kill(self) -> None:
        """Kill it, if it runs."""


def end_process(process: Process, channel: Channel) -> None:
    """Close the ``channel``, which ends the ``process``; kill it if it does not end by itself."""
    channel.close()
    try:
        process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def interpreter_options() -> list[str]:
    """Python's options, as in ``python -O -W error -X utf8``: the worker must have the same."""
    # private, and used by multiprocessing to start its processes (3.10 to 3.14)
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _against_defects() -> list[str]:
    """Where the folder of a test is gone, CPython 3.13.0 to 3.13.2 fails on attributes that modules lack.

    It asks whether a file next to the program hides a module (python/cpython#130932), but not with ``-P``.
    The import path is passed on in any case.
    """
    return ["-P"] if (3, 13) <= sys.version_info < (3, 13, 3) and not sys.flags.safe_path else []


def with_tail(what: str, output: IO[bytes]) -> str:
    """``what`` has happened, with the end of the process's output."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL_BYTES))
    tail = output.read().decode(errors="replace").strip()
    return f"{what}\nThe last of its output:\n{tail}" if tail else what


# For the process itself


def flush_output() -> None:
    """Flush the output; a test may have closed the streams, or the session may be gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue


def leave(status: int) -> NoReturn:
    """Exit immediately, without ``atexit`` handlers of libraries and plugins."""
    try:
        flush_output()
    finally:
        os._exit(status)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_text(returncode: int | None) -> str:
    """How a process ended; ``returncode`` as of ``subprocess``: the exit status, or minus the signal."""
    if returncode is None:
        return "ended"
    if returncode >= 0:
        return f"left with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # real-time signals have no name
        return f"was ended by signal {-returncode}"
    return f"was ended by signal {-returncode} ({name})"
