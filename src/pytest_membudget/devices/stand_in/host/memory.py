"""The library that tensors' host memory comes from (native/host.c), as Python calls it."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import torch

_Birth: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
#: Events that are taken out at a time.
_TAKEN: Final = 256


class What(IntEnum):
    """What an event says; the numbers are those of native/host_events.h."""

    PAGEABLE = 0
    PINNED = 1
    FREED = 2


class Hollow(IntEnum):
    """Why the values of a host tensor are not to be trusted; a result has the largest of its operands'.

    native/host_span.h has the number of ``NOT_COMPUTED``.
    """

    #: numbers copied from a card that nobody knows: the report lists what they are taken to be
    LISTED = 1
    #: a large tensor, whose memory holds anything
    NOT_COMPUTED = 2
    #: copied from a mask on a card that nobody knows, or made from one: reads are answered as on the card
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A birth or a death of one block of host memory."""

    what: What
    address: int
    size_bytes: int
    """As it was asked for; of a birth alone."""

    @property
    def is_birth(self) -> bool:
        """Whether the block is new."""
        return self.what is not What.FREED


class _RawEvent(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("what", ctypes.c_int64),
    )


class HostMemory:
    """What the preloaded library knows of tensors' host memory, and what it can be asked to do."""

    def __init__(self) -> None:
        library = self._library = ctypes.CDLL(None)
        for name, arguments, result in _FUNCTIONS:
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
        #: live blocks that are hollow: where the library keeps their number
        self.hollow_blocks: Final = library.stand_in_host_hollow_blocks().contents
        self._on_birth: Any = None

    def hollow(self, tensor: torch.Tensor) -> int:
        """Why the values of ``tensor``'s storage are not to be trusted (``Hollow``); 0 if they are."""
        return self.hollow_at(storage_address(tensor)) if self.hollow_blocks.value else 0

    def hollow_at(self, address: int) -> int:
        """Why the values of the storage in which ``address`` lies are not to be trusted; 0 if they are."""
        return int(self._library.stand_in_host_hollow(address))

    def set_hollow(self, tensor: torch.Tensor, reason: int) -> None:
        """From here on the values of ``tensor``'s storage are not to be trusted, or with 0 they are again.

        Memory that does not come from the library (numpy's, shared memory) is left as it is.
        """
        self.set_hollow_at(storage_address(tensor), reason)

    def set_hollow_at(self, address: int, reason: int) -> None:
        """As ``set_hollow``, of the storage in which ``address`` lies."""
        self._library.stand_in_host_set_hollow(address, reason)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor``'s memory comes from the library."""
        return bool(self._library.stand_in_host_holds(storage_address(tensor)))

    def zero(self, tensor: torch.Tensor) -> bool:
        """Make a dense ``tensor`` zero without touching its pages; False if its memory is another's."""
        return bool(self._library.stand_in_host_zero(tensor.data_ptr(), tensor.nbytes))

    def is_untouched(self, tensor: torch.Tensor) -> bool:
        """Whether nobody has written to the pages of a dense ``tensor``: it is zero."""
        return self.is_untouched_at(tensor.data_ptr(), tensor.nbytes)

    def is_untouched_at(self, address: int, size_bytes: int) -> bool:
        """Whether nobody has written to the pages of these bytes: they are zero."""
        return bool(self._library.stand_in_host_is_untouched(address, size_bytes))

    def held_bytes(self) -> int:
        """What tensors and pinned memory take now."""
        return int(self._library.stand_in_host_held_bytes())

    def record(self, on_birth: Callable[[int], None], from_bytes: int) -> None:
        """Keep all events from here on; ``on_birth`` is called with the address of each large block.

        It is called in threads of Python's alone, and not while it runs.
        """
        self._on_birth = _Birth(on_birth)
        self._library.stand_in_host_record(self._on_birth, from_bytes)

    def stop(self) -> None:
        """Keep no more events."""
        self._library.stand_in_host_stop()

    @contextmanager
    def own(self) -> Iterator[None]:
        """A context in which this thread's tensors are no test's: nobody keeps events of them."""
        before = self._library.stand_in_host_set_own(1)
        try:
            yield
        finally:
            self._library.stand_in_host_set_own(before)

    def take_events(self) -> list[HostEvent]:
        """The events since the last call, oldest first."""
        room = (_RawEvent * _TAKEN)()
        events: list[HostEvent] = []
        while True:
            count = self._library.stand_in_host_take_events(room, _TAKEN)
            events += [HostEvent(What(raw.what), raw.address, raw.bytes) for raw in room[:count]]
            if count < _TAKEN:
                return events


def storage_address(tensor: torch.Tensor) -> int:
    """Where ``tensor``'s storage begins; 0 where there is none behind it."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


_FUNCTIONS: Final = (
    ("stand_in_host_hollow", (ctypes.c_void_p,), ctypes.c_int),
    ("stand_in_host_set_hollow", (ctypes.c_void_p, ctypes.c_int), None),
    ("stand_in_host_holds", (ctypes.c_void_p,), ctypes.c_int),
    ("stand_in_host_hollow_blocks", (), ctypes.POINTER(ctypes.c_int)),
    ("stand_in_host_held_bytes", (), ctypes.c_size_t),
    ("stand_in_host_zero", (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int),
    ("stand_in_host_is_untouched", (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int),
    ("stand_in_host_record", (_Birth, ctypes.c_size_t), None),
    ("stand_in_host_set_own", (ctypes.c_int,), ctypes.c_int),
    ("stand_in_host_stop", (), None),
    ("stand_in_host_take_events", (ctypes.POINTER(_RawEvent), ctypes.c_size_t), ctypes.c_size_t),
)
