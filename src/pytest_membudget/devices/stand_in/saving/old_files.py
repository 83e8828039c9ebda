"""Storages as torch wrote them before 1.6, and pickles them still: their number of elements, then bytes.

In a file an unknown storage's number is one that another torch refuses: nothing else there says so.
"""

import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from ...torch_parts import check_parts
from ..host.fills import LARGE_BYTES
from ..values.following import Following
from .holes import can_skip, set_unknown

#: Of the number of elements in a file: the values are unknown.
_UNKNOWN_BIT: Final = 1 << 62
_COUNT_BYTES: Final = 8
#: Where ``torch.UntypedStorage`` has what notes that a storage is unknown, for what is unpickled.
_NOTE: Final = "_membudget_set_unknown"

#: (module, attribute path, what it is for). tests/devices/stand_in/test_saving.py has one test a row.
PARTS: Final = (
    ("torch.serialization", "_legacy_save", "copies for files"),
    ("torch", "UntypedStorage._write_file", "holes in files"),
    ("torch", "UntypedStorage._set_from_file", "loading without reading holes"),
    ("torch.storage", "_load_from_bytes", "pickles of unknown values"),
)


def install_old_files(following: Following) -> None:
    """Change how torch writes and reads them, for the rest of the process.

    Raises ``UnsupportedTorch`` if this torch lacks one of ``PARTS``.
    """
    check_parts(PARTS)
    module: Any = torch.serialization
    module._legacy_save = following.copies.for_files(module._legacy_save)
    pickling = _Pickling()
    storage: Any = torch.UntypedStorage
    setattr(storage, _NOTE, partial(set_unknown, following))
    storage._write_file = _write_file(following, pickling, storage._write_file)
    storage._set_from_file = _set_from_file(following, storage._set_from_file)
    kinds: list[Any] = [storage, torch.TypedStorage]
    for kind in kinds:
        kind.__reduce__ = _reduce(pickling, kind.__reduce__)


def restore_unknown(data: bytes) -> Any:
    """The storage in a pickle, whose values nobody knows."""
    restored: Any = torch.storage._load_from_bytes(data)
    note = getattr(torch.UntypedStorage, _NOTE, None)
    if note is not None:  # not in a process of the test's own, which has another torch
        note(getattr(restored, "_untyped_storage", restored))
    return restored


class _Pickling(threading.local):
    """Of a thread: whether it pickles a storage, and whether anybody knows what that holds."""

    is_on = False
    is_unknown = False


def _write_file(
    following: Following, pickling: _Pickling, original: Callable[..., None]
) -> Callable[..., None]:
    def write_file(
        storage: torch.UntypedStorage, file: Any, is_real_file: bool, save_size: bool, element_size: int
    ) -> None:
        host = storage.cpu()
        address, size = host.data_ptr(), host.nbytes()
        if not following.host.hollow_at(address):
            original(host, file, is_real_file, save_size, element_size)
            return
        pickling.is_unknown = True
        if save_size:
            bit = 0 if pickling.is_on else _UNKNOWN_BIT
            file.write((size // element_size | bit).to_bytes(_COUNT_BYTES, "little"))
            file.flush()
        if size >= LARGE_BYTES and can_skip(file):
            file.seek(size - 1, 1)
            file.write(b"\0")
            file.flush()
        else:
            original(host, file, is_real_file, False, element_size)

    return following.copies.for_files(write_file)


def _set_from_file(following: Following, original: Callable[..., Any]) -> Callable[..., Any]:
    def set_from_file(
        storage: torch.UntypedStorage, file: Any, offset: int | None, is_real_file: bool, element_size: int
    ) -> Any:
        start = file.tell() if offset is None else offset
        file.seek(start)
        count = int.from_bytes(file.read(_COUNT_BYTES), "little")
        file.seek(start)
        if count != storage.nbytes() // element_size | _UNKNOWN_BIT:
            return original(storage, file, offset, is_real_file, element_size)
        begin, size = start + _COUNT_BYTES, storage.nbytes()
        file.seek(begin)
        if size < LARGE_BYTES and storage.device.type == "cpu":
            ctypes.memmove(storage.data_ptr(), file.read(size), size)
        set_unknown(following, storage)
        file.seek(begin + size)
        return storage

    return set_from_file


def _reduce(pickling: _Pickling, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A pickle is as long as on a card, and any torch reads it: processes are sent them."""

    def reduce(storage: Any) -> Any:
        pickling.is_on, pickling.is_unknown = True, False
        try:
            load, arguments = original(storage)
        finally:
            pickling.is_on = False
        return (restore_unknown if pickling.is_unknown else load), arguments

    return reduce
