"""Which tensors' memory was given to somebody else, or written to: what was known of it is true no more.

The stand-in's library sees every allocation (``native/followed.c``), also those of PyTorch's own code that no
operator reports, and every launch of a kernel; Python asks it for the addresses that it follows.
"""

import ctypes
from collections.abc import Callable

_AT_ONCE = 256


class FollowedMemory:
    """Has ``forget`` called with each address that is followed, and whose memory is no more what it was."""

    def __init__(self, forget: Callable[[int], None]) -> None:
        own = ctypes.PyDLL(None)  # the functions are shorter than letting go of Python's lock
        self._follow = own.stand_in_follow
        self._follow.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        self._follow.restype = None
        self._take = own.stand_in_take_given
        self._take.restype = ctypes.c_size_t
        self._taken = (ctypes.c_size_t * _AT_ONCE)()
        self._forget = forget
        self._reports = ctypes.c_ulonglong.in_dll(own, "stand_in_reports")
        #: how many addresses wait (``value``)
        self.given = ctypes.c_ulonglong.in_dll(own, "stand_in_given")

    def follow(self, address: int, size_bytes: int) -> None:
        """Something is known of these bytes, which begin where their storage does."""
        if not address:  # an empty tensor: PyTorch may have allocated nothing yet
            return
        if not self._reports.value:
            raise RuntimeError("PyTorch's allocator reports no allocations to the stand-in")
        self._follow(address, size_bytes)

    def forget_given(self) -> None:
        """Forget what was given to somebody else, or written to, until now; where ``given`` is not 0."""
        while count := self._take(self._taken, _AT_ONCE):
            for address in self._taken[:count]:
                self._forget(address)
