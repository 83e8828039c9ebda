"""Kernels that PyTorch's operators did not launch: Triton's, a compiler's, an extension's, a graph's.

What they write to is not known, so nothing is known any more after one of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable


class ForeignLaunches:
    """Notices launches between the operators that are followed, by the library's count of all launches."""

    def __init__(self, forget: Callable[[], None]) -> None:
        """``forget``: called when there was one."""
        count = ctypes.CDLL(None).stand_in_launches
        count.restype = ctypes.c_ulonglong
        self._count: Callable[[], int] = count
        self._forget = forget
        self._seen = count()

    def operator_begins(self) -> None:
        """An operator that is followed begins, outside any other."""
        if self._count() != self._seen:
            self._forget()
            self._seen = self._count()

    def operator_ended(self) -> None:
        """It has ended: what it launched is its own."""
        self._seen = self._count()
