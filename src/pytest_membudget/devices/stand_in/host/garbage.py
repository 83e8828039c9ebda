"""When Python collects garbage: a test's reference cycles hold their tensors until then.

It does so when so many objects more were made than freed (``gc.get_threshold``). How many that are depends on
the process: on what it imported, on hooks. So a test whose cycles held memory is run again without.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator

from ....results.varied import GARBAGE


class Garbage:
    """Whether Python has found memory in reference cycles during a test."""

    def __init__(self, allocated_bytes: Callable[[], int]) -> None:
        """``allocated_bytes``: what tensors take now; called in whatever code makes Python collect."""
        self._allocated_bytes = allocated_bytes
        self._before_bytes = 0
        self._is_found = False

    def begin(self, *, is_kept: bool) -> None:
        """A test begins. ``is_kept``: Python collects where the test asks for it, and nowhere else."""
        if is_kept:
            gc.set_threshold(0)
        gc.callbacks.append(self._collects)

    @contextlib.contextmanager
    def not_looked_at(self) -> Iterator[None]:
        """What is found inside does not count."""
        found = self._is_found
        yield
        self._is_found = found

    def found(self) -> list[str]:
        """Why the test may have another figure."""
        return [GARBAGE] if self._is_found else []

    def _collects(self, phase: str, info: object) -> None:
        if phase == "start":
            self._before_bytes = self._allocated_bytes()
        elif self._allocated_bytes() < self._before_bytes:
            self._is_found = True
