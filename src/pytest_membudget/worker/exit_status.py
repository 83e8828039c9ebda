"""How a process ended, or that it did not, in words."""

from __future__ import annotations

import signal


def end_text(returncode: int) -> str:
    """As ``subprocess`` counts: minus the signal's number, or the exit status."""
    if returncode >= 0:
        return f"left with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # the real-time ones have none
        return f"was ended by signal {-returncode}"
    return f"was ended by signal {-returncode} ({name})"


def time_limit_text(timeout: float, what: str = "finish") -> str:
    """That a test did not ``finish`` within ``timeout`` seconds."""
    return f"it did not {what} within {timeout:g} s (the time limit is [tool.membudget] timeout, in seconds)"
