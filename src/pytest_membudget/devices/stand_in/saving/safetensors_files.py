"""Files of safetensors, with a hole for what nobody has computed.

The library reads such a file as any other; it maps files, so that a hole takes neither time nor memory.
Until 0.7 it makes bytes of all tensors, which are written as they are.
"""

import ctypes
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from ...after_import import after_import
from ..host.memory import HostMemory
from ..values.following import Following
from .holes import is_hole
from .safetensors_header import written_header
from .safetensors_reading import opening

_PACKAGE: Final = "safetensors"
_MODULE: Final = "safetensors.torch"
#: What is said of bytes of values that nobody has computed.
_USED: Final = "what their memory held"


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One of a file: as its header has it, and where its bytes are."""

    name: str
    dtype: str
    """As the format calls it: ``F32``."""
    shape: tuple[int, ...]
    address: int
    size_bytes: int


def install_safetensors(following: Following) -> None:
    """Change how safetensors writes and reads files, for the rest of the process, once it is imported."""
    after_import(_PACKAGE, lambda package: setattr(package, "safe_open", opening(following, package)))
    after_import(_MODULE, lambda module: _install(following, module))


def _install(following: Following, module: Any) -> None:
    module.safe_open = importlib.import_module(_PACKAGE).safe_open
    flatten = "_flatten_as_ptr" if hasattr(module, "_flatten_as_ptr") else "_flatten"
    if hasattr(module, flatten):
        setattr(module, flatten, following.copies.for_files(getattr(module, flatten)))
    original, host = module.serialize_file, following.host

    def serialize_file(flat: Mapping[str, Any], filename: Any, metadata: Any = None) -> None:
        tensors = _tensors(flat)
        if any(_is_unknown(host, tensor) or _is_hole(host, tensor) for tensor in tensors):
            _write(host, tensors, filename, metadata)
        else:
            original(flat, filename, metadata=metadata)

    module.serialize_file = serialize_file
    _install_bytes(following, module)


def _install_bytes(following: Following, module: Any) -> None:
    """What is made of the bytes of a file, nobody can follow: that they were read is said."""
    original = module.serialize

    def serialize(flat: Mapping[str, Any], metadata: Any = None) -> bytes:
        for tensor in _tensors(flat):
            if _is_unknown(following.host, tensor):
                following.reads.list_assumed(module._TYPES[tensor.dtype], _USED)
        data: bytes = original(flat, metadata=metadata)
        return data

    module.serialize = serialize


def _tensors(flat: Mapping[str, Any]) -> list[_Tensor]:
    """The widest type first, as the library has them; none of a library that gives bytes (until 0.7)."""
    found = [
        _Tensor(name, spec.dtype, tuple(spec.shape), spec.data_ptr, spec.data_len)
        for name, spec in flat.items()
        if hasattr(spec, "data_ptr")
    ]
    return sorted(found, key=lambda tensor: (-_bits(tensor), tensor.name))


def _bits(tensor: _Tensor) -> int:
    count = torch.Size(tensor.shape).numel()
    return 8 * tensor.size_bytes // count if count else 0


def _is_hole(host: HostMemory, tensor: _Tensor) -> bool:
    return is_hole(host, tensor.address, tensor.size_bytes)


def _is_unknown(host: HostMemory, tensor: _Tensor) -> bool:
    return host.hollow_at(tensor.address) != 0


def _write(host: HostMemory, tensors: list[_Tensor], filename: Any, metadata: Any) -> None:
    entries: dict[str, Any] = {}
    end = 0
    for tensor in tensors:
        begin, end = end, end + tensor.size_bytes
        entries[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    unknown = [tensor.name for tensor in tensors if _is_unknown(host, tensor)]
    with open(filename, "wb") as file:
        file.write(written_header(entries, metadata, unknown))
        for tensor in tensors:
            if _is_hole(host, tensor):
                file.seek(tensor.size_bytes, 1)
            else:
                file.write((ctypes.c_char * tensor.size_bytes).from_address(tensor.address))
        file.truncate()
