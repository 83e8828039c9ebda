"""Turns on a GPU that several processes measure on: one at a time, by a lock file a device."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where nothing is measured
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def device_turn(environment: Mapping[str, str]) -> Iterator[None]:
    """Wait for the first visible device, and keep it inside.

    The lock is the system's: it ends with the process that holds it, however that ends.
    """
    first = environment.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    name = f"membudget-{os.getuid()}-cuda-{re.sub(r'[^A-Za-z0-9-]', '_', first)}.lock"
    with open(os.path.join(tempfile.gettempdir(), name), "a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
