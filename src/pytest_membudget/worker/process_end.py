"""How a process of ours ends: at once, whatever was done to it; and how one has ended, in words."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

#: ``linux/prctl.h``
_PR_SET_PDEATHSIG = 1


def flush_output() -> None:
    """Write out what was printed; a test may have closed the streams, or the session may be gone."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue


def leave(status: int) -> NoReturn:
    """End this process without anything that libraries and plugins have left to do at its end."""
    try:
        flush_output()
    finally:
        os._exit(status)


def end_with_parent() -> None:
    """Let the kernel end this process when its parent is gone, which could not end it any more: on Linux."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (AttributeError, OSError):
        return


def end_text(returncode: int) -> str:
    """As ``subprocess`` counts: minus the signal's number, or the exit status."""
    if returncode >= 0:
        return f"left with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # the real-time ones have none
        return f"was ended by signal {-returncode}"
    return f"was ended by signal {-returncode} ({name})"
