"""The header of a file of safetensors, in which it is marked whose values nobody has computed.

A file begins with the header's length in 8 bytes, and tensors begin at a multiple of 8, up to which the
header has spaces (safetensors/src/tensor.rs, ``prepare``; 0.8). Its marks are among these, one for each
tensor: metadata are the user's, and any reader of JSON takes a tab for a space.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

_LENGTH_BYTES: Final = 8
_METADATA: Final = "__metadata__"
_KNOWN: Final = b" "
_UNKNOWN: Final = b"\t"


def written_header(
    tensors: Mapping[str, Mapping[str, Any]], metadata: Mapping[str, str] | None, unknown: Collection[str]
) -> bytes:
    """The beginning of a file of ``tensors``, as the header has them; ``unknown``: names."""
    entries = tensors if metadata is None else {_METADATA: metadata, **tensors}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    if unknown:
        text += b"".join(_UNKNOWN if name in unknown else _KNOWN for name in tensors)
    text += _KNOWN * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def unknown_names(path: Path) -> frozenset[str]:
    """The tensors in the file ``path`` whose values nobody has computed."""
    with path.open("rb") as file:
        text = file.read(int.from_bytes(file.read(_LENGTH_BYTES), "little"))
    plain = text.rstrip(_KNOWN + _UNKNOWN)
    marks = text[len(plain) :]
    if _UNKNOWN not in marks:
        return frozenset()
    names = (name for name in json.loads(plain) if name != _METADATA)
    return frozenset(name for name, mark in zip(names, marks, strict=False) if mark == ord(_UNKNOWN))
