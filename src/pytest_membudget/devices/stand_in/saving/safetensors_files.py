"""Files of safetensors, with a hole for what nobody has computed.

The library reads such a file as any other; it maps files, so that a hole takes neither time nor memory.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from ...after_import import after_import
from ..host.memory import HostMemory
from ..values.following import Following
from .holes import is_hole

_MODULE: Final = "safetensors.torch"
#: The header's length comes first, in 8 bytes, and tensors begin at a multiple of 8
#: (safetensors/src/tensor.rs, ``prepare``; 0.8).
_LENGTH_BYTES: Final = 8


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
    """Change how safetensors writes files, for the rest of the process, as soon as it is imported."""
    after_import(_MODULE, lambda module: _install(following, module))


def _install(following: Following, module: Any) -> None:
    flatten = "_flatten_as_ptr" if hasattr(module, "_flatten_as_ptr") else "_flatten"
    if hasattr(module, flatten):
        setattr(module, flatten, following.copies.for_files(getattr(module, flatten)))
    original = module.serialize_file

    def serialize_file(flat: Mapping[str, Any], filename: Any, metadata: Any = None) -> None:
        tensors = _tensors(flat)
        if any(_is_hole(following.host, tensor) for tensor in tensors):
            _write(following.host, tensors, filename, metadata)
        else:
            original(flat, filename, metadata=metadata)

    module.serialize_file = serialize_file


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


def _write(host: HostMemory, tensors: list[_Tensor], filename: Any, metadata: Any) -> None:
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    end = 0
    for tensor in tensors:
        begin, end = end, end + tensor.size_bytes
        header[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    with open(filename, "wb") as file:
        file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
        for tensor in tensors:
            if _is_hole(host, tensor):
                file.seek(tensor.size_bytes, 1)
            else:
                file.write((ctypes.c_char * tensor.size_bytes).from_address(tensor.address))
        file.truncate()
