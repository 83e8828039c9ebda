"""What this process asks of the stand-in's libraries, which were loaded before torch."""

import ctypes
from typing import Final

from ...results.varied import BLOCKS, PEERS, STREAMS

#: By ``enum unknown`` of ``native/unknown.h``.
_UNKNOWN: Final = {1: STREAMS, 2: PEERS, 4: BLOCKS}


class StandInLibraries:
    """The exported functions of ``libmembudget_stand_in.so`` (``native/``), found among all loaded ones."""

    def __init__(self) -> None:
        self._own = ctypes.CDLL(None)
        self._own.stand_in_set_cards.argtypes = [ctypes.c_char_p]
        self._own.stand_in_most_used_bytes.restype = ctypes.c_size_t
        self._own.stand_in_not_modelled.restype = ctypes.c_void_p
        self._own.stand_in_refused.restype = ctypes.c_void_p
        self._own.stand_in_free_text.argtypes = [ctypes.c_void_p]

    def card_count(self) -> int:
        """How many cards this process has."""
        count = ctypes.c_int()
        self._own.cudaGetDeviceCount(ctypes.byref(count))
        return count.value

    def set_cards(self, text: str) -> None:
        """From here on the cards are those of ``text`` (``environment.cards_text``)."""
        self._own.stand_in_reserve_addresses()
        if self._own.stand_in_set_cards(text.encode()) != 0:
            raise RuntimeError(f"the stand-in does not take these cards: {text}")

    def most_used_bytes(self, card: int) -> int:
        """The most memory of ``card`` that was taken at once, by PyTorch's allocator and others."""
        return int(self._own.stand_in_most_used_bytes(card))

    def sort_symbols(self) -> None:
        """Have the names of functions found quickly by address, in this process and those that it forks."""
        self._own.stand_in_sort_symbols()

    def vary(self, *, other: bool) -> None:
        """A test begins. ``other``: what nobody knows of the machine is not answered as is plausible."""
        self._own.stand_in_vary(other)

    def asked(self) -> list[str]:
        """What nobody knows of the machine, and code has asked."""
        asked = self._own.stand_in_asked()
        return [text for bit, text in _UNKNOWN.items() if asked & bit]

    def not_modelled(self) -> list[str]:
        """The functions that were called and whose memory is not known."""
        return self._names(self._own.stand_in_not_modelled())

    def refused(self) -> list[str]:
        """The functions that were called and that refused what a card would have done."""
        return self._names(self._own.stand_in_refused())

    def _names(self, text: int) -> list[str]:
        names = ctypes.string_at(text).decode().split("\n")
        self._own.stand_in_free_text(text)
        return [name for name in names if name]
