"""Files of safetensors, with a hole for what nobody has computed.

The library reads such a file as any other; it maps files, so that a hole takes neither time nor memory.
Until 0.7 it makes bytes of all tensors, which are written as they are.
"""

import ctypes
import importlib
from collections.abc import Mapping
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
        if any(_is_unknown(host, tensor) or _is_hole(host, tensor) for tensor in tensors.values()):
            _write(host, tensors, filename, metadata)
        else:
            original(flat, filename, metadata=metadata)

    module.serialize_file = serialize_file
    _install_bytes(following, module)


def _install_bytes(following: Following, module: Any) -> None:
    """What is made of the bytes of a file, nobody can follow: that they were read is said."""
    original = module.serialize

    def serialize(flat: Mapping[str, Any], metadata: Any = None) -> bytes:
        for tensor in _tensors(flat).values():
            if _is_unknown(following.host, tensor):
                following.reads.list_assumed(module._TYPES[tensor.dtype], _USED)
        data: bytes = original(flat, metadata=metadata)
        return data

    module.serialize = serialize


def _tensors(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The library's ``TensorSpec`` of each, the widest type first; none where it gives bytes (until 0.7)."""
    found = [(name, tensor) for name, tensor in flat.items() if hasattr(tensor, "data_ptr")]
    return dict(sorted(found, key=lambda pair: (-_bits(pair[1]), pair[0])))


def _bits(tensor: Any) -> int:
    count = torch.Size(tensor.shape).numel()
    return 8 * int(tensor.data_len) // count if count else 0


def _is_hole(host: HostMemory, tensor: Any) -> bool:
    return is_hole(host, tensor.data_ptr, tensor.data_len)


def _is_unknown(host: HostMemory, tensor: Any) -> bool:
    return host.hollow_at(tensor.data_ptr) != 0


def _write(host: HostMemory, tensors: Mapping[str, Any], filename: Any, metadata: Any) -> None:
    entries: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.data_len
        entries[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    unknown = [name for name, tensor in tensors.items() if _is_unknown(host, tensor)]
    with open(filename, "wb") as file:
        file.write(written_header(entries, metadata, unknown))
        for tensor in tensors.values():
            if _is_hole(host, tensor):
                file.seek(tensor.data_len, 1)
            else:
                file.write((ctypes.c_char * tensor.data_len).from_address(tensor.data_ptr))
        file.truncate()
