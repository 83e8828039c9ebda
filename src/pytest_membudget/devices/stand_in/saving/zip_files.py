"""Files of ``torch.save``: zip archives, one record a storage.

The record that a hole is for is ``torch.serialization.skip_data``'s.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import torch

from ...torch_parts import check_parts
from ..host.fills import LARGE_BYTES
from ..host.memory import HostMemory
from ..values.following import Following
from .holes import can_skip, is_hole, is_without_data, set_unknown
from .unknown_files import UNKNOWN_RECORD

#: (module, attribute path, what it is for). tests/devices/stand_in/test_saving.py has one test a row.
PARTS: Final = (
    ("torch.serialization", "_save", "copies for files"),
    ("torch.serialization", "_load", "loading of mapped files"),
    ("torch._C", "PyTorchFileWriter.write_record_metadata", "holes in files"),
    ("torch._C", "PyTorchFileWriter.write_end_of_file", "the names of unknown values"),
    ("torch._C", "PyTorchFileReader.get_storage_from_record", "loading without reading holes"),
)


def install_zip_files(following: Following) -> None:
    """Change how torch writes and reads them, for the rest of the process.

    Raises ``UnsupportedTorch`` if this torch lacks one of ``PARTS``.
    """
    check_parts(PARTS)
    module: Any = torch.serialization
    module._save = following.copies.for_files(module._save)
    module._load = _load(module._load)
    library: Any = torch._C
    library.PyTorchFileWriter = _writer(following.host)
    library.PyTorchFileReader = _reader(following)


def _writer(host: HostMemory) -> type:
    base: Any = torch._C.PyTorchFileWriter

    class Writer(base):  # type: ignore[misc] # torch's type has not all of its methods
        """Writes a zip file: a path's, or to a stream."""

        def __init__(self, target: Any, *args: Any) -> None:
            is_path = isinstance(target, str)
            if is_path:  # PyTorch's C++ opens it, of which Python's auditing knows nothing
                sys.audit("open", target, "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            super().__init__(target, *args)
            self._is_empty = is_path
            self._can_skip = is_path or can_skip(target)
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
                super().write_record(UNKNOWN_RECORD, text, len(text))
            super().write_end_of_file()

    return Writer


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    """A mapped file of unknown values is read as one that is not mapped: nothing is noted of a mapping."""

    @functools.wraps(original)
    def load(zip_file: Any, *args: Any, overall_storage: Any = None, **kwargs: Any) -> Any:
        mapped = None if zip_file.has_record(UNKNOWN_RECORD) else overall_storage
        return original(zip_file, *args, overall_storage=mapped, **kwargs)

    return load


def _reader(following: Following) -> type:
    base: Any = torch._C.PyTorchFileReader

    class Reader(base):  # type: ignore[misc] # torch's type has not all of its methods
        """Reads a zip file, without the holes for what is unknown."""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._unknown: set[str] = set()
            if self.has_record(UNKNOWN_RECORD):
                self._unknown = set(self.get_record(UNKNOWN_RECORD).decode().split("\n"))

        def get_storage_from_record(self, name: str, count: int, kind: Any) -> Any:
            if name not in self._unknown:
                return super().get_storage_from_record(name, count, kind)
            dtype = kind if isinstance(kind, torch.dtype) else torch.uint8
            if count * dtype.itemsize >= LARGE_BYTES:
                read = torch.empty(count, dtype=dtype, device="cpu")
            else:
                read = super().get_storage_from_record(name, count, kind)
            set_unknown(following, read.untyped_storage())
            return read

    return Reader
