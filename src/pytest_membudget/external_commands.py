"""Runs commands of other programs, which are given no input."""

import subprocess
from collections.abc import Mapping, Sequence


def run_command(
    words: Sequence[str], timeout: float | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command, and return what it writes; its exit status may be any."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
        env=environment,
    )
