"""Turns on GPUs that several processes measure on: how much of a card each may take, by a lock file a card.

A file has two locks. One, of the whole file, is the queue: who holds it is the next to be let in, so that
a test that needs much of a card is not passed by for ever by tests that need little. The other is of
single bytes, each a share of the card: a test holds as many as its budget needs. Both are the system's: they
end with the process that holds them, however that ends. A process takes one turn at a time: it loses its
locks of a file when it closes it anywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where nothing is measured
    fcntl = None  # type: ignore[assignment]

#: What one byte of a lock file stands for.
SHARE_BYTES = 64 * 2**20
#: The first byte behind all shares of any card; who only looks at a card has one from here on.
_BEHIND = 2**40
#: Seconds between two looks at whether enough of a card is free.
_INTERVAL = 0.1
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_names(environment: Mapping[str, str], count: int) -> list[str]:
    """Names of the first ``count`` devices, as CUDA_VISIBLE_DEVICES has them; fewer if it shows fewer."""
    visible = environment.get(_VISIBLE)
    if visible is None:
        return [str(index) for index in range(count)]
    return [name.strip() for name in visible.split(",")][:count]


@contextlib.contextmanager
def whole_turn(names: Sequence[str]) -> Iterator[None]:
    """Wait until the devices ``names`` are nobody else's, and keep them inside.

    They are taken in the order of their names, whatever theirs is here: two that need the same ones do not
    wait for each other.
    """
    with contextlib.ExitStack() as held:
        for name in sorted(set(names)):
            file = held.enter_context(_lock_file(name))
            with _queue(file):
                _wait_for_all(file)
        yield


@contextlib.contextmanager
def shared_turn(name: str, need_bytes: int, total_bytes: int) -> Iterator[None]:
    """Wait until ``need_bytes`` of the ``total_bytes`` of the device ``name`` are free; keep them inside.

    Who needs all of it, or more, has it alone.
    """
    shares, most = -(-need_bytes // SHARE_BYTES), total_bytes // SHARE_BYTES
    with _lock_file(name) as file:
        with _queue(file):
            if shares >= most:
                _wait_for_all(file)
            else:
                _wait_for_shares(file, shares, most)
        yield


@contextlib.contextmanager
def looking_turn(name: str) -> Iterator[None]:
    """Wait until nobody has the device ``name`` alone, and let nobody have it alone inside."""
    with _lock_file(name) as file:
        with _queue(file):
            while not _take(file, _BEHIND + os.getpid(), 1):
                time.sleep(_INTERVAL)
        yield


def _lock_file(name: str) -> IO[str]:
    file = f"membudget-{os.getuid()}-cuda-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
    return open(os.path.join(tempfile.gettempdir(), file), "a")


@contextlib.contextmanager
def _queue(file: IO[str]) -> Iterator[None]:
    """Wait for one's turn to be let in; who waits for it is let in in order."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_UN)


def _wait_for_all(file: IO[str]) -> None:
    while not _take(file, 0, 0):  # a length of 0: to the end, wherever that is
        time.sleep(_INTERVAL)


def _wait_for_shares(file: IO[str], shares: int, most: int) -> None:
    """Take what is free of the first ``most`` until it is enough; nobody else takes any meanwhile."""
    taken: set[int] = set()
    while True:
        for place in range(most):
            if len(taken) < shares and place not in taken and _take(file, place, 1):
                taken.add(place)
        if len(taken) == shares:
            return
        time.sleep(_INTERVAL)


def _take(file: IO[str], start: int, length: int) -> bool:
    """Whether this process has the bytes from ``start`` on now."""
    if fcntl is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if isinstance(error, (BlockingIOError, PermissionError)):  # POSIX: EAGAIN or EACCES
            return False
        raise
    return True
