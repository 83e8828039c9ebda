"""Checkpoints of ``torch.save``: as large as on a card, with a hole for what nobody has computed.

A hole is neither written nor stored, nor read back. What the file has of values that nobody knows is not taken
for known when it is loaded; all else (steps, settings, tokens) is what was saved.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from ..after_import import after_import
from ..private import check_parts
from .host.fills import LARGE_BYTES
from .host.memory import Hollow, HostMemory
from .values.following import Following

#: The record of a zip file that names those of unknown values.
_UNKNOWN_RECORD: Final = ".pytest_membudget/unknown"
#: Of the number of elements that the old format has before a storage's bytes: its values are unknown.
_UNKNOWN_BIT: Final = 1 << 62
_COUNT_BYTES: Final = 8

_UNTYPED: Final = "bytes of storages in the format before torch 1.6"
#: tests/devices/stand_in/test_saving.py says what breaks without each (torch 2.11 to 2.13).
PARTS: Final = (
    ("torch.serialization", "_save", "copies for files"),
    ("torch.serialization", "_legacy_save", "copies for files"),
    ("torch._C", "PyTorchFileWriter.write_record_metadata", "holes in files"),
    ("torch._C", "PyTorchFileWriter.write_end_of_file", "the names of unknown values"),
    ("torch._C", "PyTorchFileReader.get_storage_from_record", "loading without reading holes"),
    ("torch", "UntypedStorage._write_file", _UNTYPED),
    ("torch", "UntypedStorage._set_from_file", _UNTYPED),
)
_DISTRIBUTED: Final = "torch.distributed.checkpoint"
#: What copies tensors to the host for a file there.
DISTRIBUTED_COPIES: Final = (
    (f"{_DISTRIBUTED}.filesystem", "_write_files_from_queue", "copies for files"),
    (f"{_DISTRIBUTED}._state_dict_stager", "StateDictStager.stage", "copies for files"),
    (f"{_DISTRIBUTED}.staging", "BlockingAsyncStager.stage", "copies for files"),
)
_TRANSFORMS: Final = "_StorageWriterTransforms", "transform_save_stream"
DISTRIBUTED_STREAMS: Final = (f"{_DISTRIBUTED}.filesystem", ".".join(_TRANSFORMS), "holes in files")


def install_saving(following: Following) -> None:
    """Change how torch writes and reads checkpoints, for the rest of the process.

    Raises ``UnsupportedTorch`` if this torch lacks a part of ``PARTS``.
    """
    check_parts(PARTS)
    module: Any = torch.serialization
    for name in ("_save", "_legacy_save"):
        setattr(module, name, following.copies.for_files(getattr(module, name)))
    library: Any = torch._C
    library.PyTorchFileWriter = _writer(following.host)
    library.PyTorchFileReader = _reader(following)
    storage: Any = torch.UntypedStorage
    storage._write_file = _write_file(following, storage._write_file)
    storage._set_from_file = _set_from_file(following, storage._set_from_file)
    _install_distributed(following)


def is_without_data(host: HostMemory, address: int, size_bytes: int) -> bool:
    """Whether these bytes are many, and anything: nobody has computed them."""
    return size_bytes >= LARGE_BYTES and host.hollow_at(address) != 0


def is_hole(host: HostMemory, address: int, size_bytes: int) -> bool:
    """Whether a hole in a new file says all of these bytes: they are anything, or zero without a page."""
    if size_bytes < LARGE_BYTES:
        return False
    return host.hollow_at(address) != 0 or host.is_untouched_at(address, size_bytes)


def _writer(host: HostMemory) -> type:
    class Writer(torch._C.PyTorchFileWriter):  # type: ignore[misc] # untyped
        """Writes a zip file: a path's, or to a stream."""

        def __init__(self, target: Any, *args: Any) -> None:
            super().__init__(target, *args)
            is_path = isinstance(target, str)
            self._is_empty = is_path
            self._can_skip = is_path or _can_skip(target)
            self._unknown: list[str] = []

        def write_record(self, name: str, data: Any, size: int) -> None:
            if not isinstance(data, torch.UntypedStorage):
                super().write_record(name, data, size)
                return
            address = data.data_ptr()
            if host.hollow_at(address):
                self._unknown.append(name)
            skips = is_hole if self._is_empty else is_without_data
            if self._can_skip and skips(host, address, size):
                super().write_record_metadata(name, size)
            else:
                super().write_record(name, data, size)

        def write_end_of_file(self) -> None:
            if self._unknown:
                text = "\n".join(self._unknown)
                super().write_record(_UNKNOWN_RECORD, text, len(text))
            super().write_end_of_file()

    return Writer


def _reader(following: Following) -> type:
    class Reader(torch._C.PyTorchFileReader):  # type: ignore[misc] # untyped
        """Reads a zip file, without the holes for what is unknown."""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._unknown: set[str] = set()
            if self.has_record(_UNKNOWN_RECORD):
                self._unknown = set(self.get_record(_UNKNOWN_RECORD).decode().split("\n"))

        def get_storage_from_record(self, name: str, count: int, kind: Any) -> Any:
            if name not in self._unknown:
                return super().get_storage_from_record(name, count, kind)
            dtype = kind if isinstance(kind, torch.dtype) else torch.uint8
            if count * dtype.itemsize >= LARGE_BYTES:
                read = torch.empty(count, dtype=dtype, device="cpu")
            else:
                read = super().get_storage_from_record(name, count, kind)
            _set_unknown(following, read.data_ptr())
            return read

    return Reader


def _write_file(following: Following, original: Callable[..., None]) -> Callable[..., None]:
    def write_file(
        storage: torch.UntypedStorage, file: Any, is_real_file: bool, save_size: bool, element_size: int
    ) -> None:
        host = storage.cpu()
        address, size = host.data_ptr(), host.nbytes()
        if not following.host.hollow_at(address):
            original(host, file, is_real_file, save_size, element_size)
            return
        if save_size:
            file.write((size // element_size | _UNKNOWN_BIT).to_bytes(_COUNT_BYTES, "little"))
            file.flush()
        if size >= LARGE_BYTES and _can_skip(file):
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
        begin = start + _COUNT_BYTES
        file.seek(begin)
        if storage.device.type == "cpu":  # a card's new memory is unknown as it is
            if storage.nbytes() < LARGE_BYTES:
                ctypes.memmove(storage.data_ptr(), file.read(storage.nbytes()), storage.nbytes())
            _set_unknown(following, storage.data_ptr())
        file.seek(begin + storage.nbytes())
        return storage

    return set_from_file


def _install_distributed(following: Following) -> None:
    """``torch.distributed.checkpoint`` copies tensors in its threads, and has a stream around the file."""
    for part in DISTRIBUTED_COPIES:
        after_import(part[0], partial(_replace, part, following.copies.for_files))
    after_import(DISTRIBUTED_STREAMS[0], partial(_replace, DISTRIBUTED_STREAMS, _with_holes))


def _replace(part: tuple[str, str, str], wrap: Callable[[Any], Any], module: Any) -> None:
    check_parts((part,))
    *owners, name = part[1].split(".")
    owner = getattr(module, owners[0]) if owners else module
    setattr(owner, name, wrap(getattr(owner, name)))


def _with_holes(transform: Callable[..., Any]) -> Callable[..., Any]:
    def transform_save_stream(self: Any, write_item: Any, raw_stream: Any) -> Any:
        stream, names = transform(self, write_item, raw_stream)
        if not names:  # nothing between ``stream`` and the file
            stream.seek, stream.seekable = raw_stream.seek, raw_stream.seekable
        return stream, names

    return transform_save_stream


def _set_unknown(following: Following, address: int) -> None:
    following.copies.on_copy()
    following.host.set_hollow_at(address, Hollow.NOT_COMPUTED)


def _can_skip(stream: Any) -> bool:
    """Whether seeking forward leaves a hole; a file that is appended to is written at its end."""
    seekable = getattr(stream, "seekable", None)
    return callable(seekable) and bool(seekable()) and "a" not in str(getattr(stream, "mode", ""))
