"""Ends this process immediately, and describes how another has ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

#: ``linux/prctl.h``
_PR_SET_PDEATHSIG = 1


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
    """Have the kernel kill this process when its parent dies (Linux only)."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (AttributeError, OSError):
        return


def end_text(returncode: int) -> str:
    """How a process ended; ``returncode`` as of ``subprocess``: the exit status, or minus the signal."""
    if returncode >= 0:
        return f"left with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # real-time signals have no name
        return f"was ended by signal {-returncode}"
    return f"was ended by signal {-returncode} ({name})"
