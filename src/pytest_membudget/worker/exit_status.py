"""How a process ended, in words."""

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
