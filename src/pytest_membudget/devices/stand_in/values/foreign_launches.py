"""Kernels that PyTorch's operators did not launch: an extension's, a graph's.

What they write to is not known, so nothing is known any more after one of them. Kernels of a loaded module,
Triton's and a compiler's, are no such ones where their parameters say what they can reach
(``native/kernel_parameters.c``).
"""

import ctypes
from collections.abc import Callable


class ForeignLaunches:
    """Notices launches between the operators that are followed, by the library's count of all launches."""

    def __init__(self, forget: Callable[[], None]) -> None:
        """``forget``: called when there was one."""
        self._forget = forget
        #: of all launches (``value``)
        self.count = ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "stand_in_launches")
        #: that number when the last operator ended
        self.seen: int = self.count.value

    def operator_begins(self) -> None:
        """An operator that is followed begins, outside any other."""
        if self.count.value != self.seen:
            self._forget()
            self.seen = self.count.value

    def operator_ended(self) -> None:
        """It has ended: what it launched is its own."""
        self.seen = self.count.value
