"""Programs in a Python of their own."""

import subprocess
import sys


def printed(*arguments, timeout=300, **more):
    """What ``python`` prints with ``arguments``, as ``-c`` and code; it has to end with status 0."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
