"""Locks GPUs for measuring: a lock file for each GPU, which the processes of a user wait for."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_names(environment: Mapping[str, str], count: int) -> list[str]:
    """Names of the first ``count`` devices, as CUDA_VISIBLE_DEVICES has them; fewer if it shows fewer."""
    visible = environment.get(_VISIBLE)
    if visible is None:
        return [str(index) for index in range(count)]
    return [name.strip() for name in visible.split(",")][:count]


@contextlib.contextmanager
def lock_gpus(names: Sequence[str]) -> Iterator[None]:
    """Wait until no other process has locked one of the devices ``names``, and keep them locked inside.

    They are locked in the order of their names, whatever theirs is here, so that two processes which need the
    same devices do not wait for each other. The system releases the locks of a process that is killed.
    """
    from filelock import FileLock  # only where something is measured

    with contextlib.ExitStack() as held:
        for name in sorted(set(names)):
            held.enter_context(FileLock(_lock_file(name)))
        yield


def _lock_file(name: str) -> str:
    file = f"membudget-{os.getuid()}-cuda-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
    return os.path.join(tempfile.gettempdir(), file)
