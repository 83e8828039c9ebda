"""Reads files of safetensors: what nobody had computed when it was saved is not known when it is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ..host.fills import LARGE_BYTES
from ..values.following import Following
from .holes import set_unknown
from .safetensors_header import unknown_names


def opening(following: Following, original: Any) -> type:
    """``safetensors.safe_open``, which is ``original``, for files with unknown values."""

    class safe_open:  # noqa: N801 - the library's name
        """An open file."""

        def __init__(self, filename: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
            self._file = original(filename, *args, **kwargs)
            self._unknown = unknown_names(Path(filename))

        def __enter__(self) -> Any:
            self._file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def get_tensor(self, name: str) -> Any:
            """The whole tensor ``name``."""
            return self._loaded(name, self._file.get_tensor(name))

        def get_tensors(self) -> dict[str, Any]:
            """All tensors, by name."""
            return {name: self._loaded(name, tensor) for name, tensor in self._file.get_tensors().items()}

        def get_slice(self, name: str) -> Any:
            """The tensor ``name``, of which parts can be read."""
            part = self._file.get_slice(name)
            return _Slice(following, part) if name in self._unknown else part

        def _loaded(self, name: str, tensor: Any) -> Any:
            return _without_values(following, tensor) if name in self._unknown else tensor

    return safe_open


class _Slice:
    """A tensor in a file, of unknown values."""

    def __init__(self, following: Following, original: Any) -> None:
        self._following = following
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __getitem__(self, index: Any) -> Any:
        return _without_values(self._following, self._original[index])


def _without_values(following: Following, loaded: Any) -> Any:
    """``loaded``, of which nobody knows what it holds; arrays of other libraries are left as they are."""
    if not isinstance(loaded, torch.Tensor):
        return loaded
    found = loaded
    if loaded.device.type == "cpu":  # a file's mapping, of which nothing can be noted
        found = torch.empty_like(loaded)
        if loaded.nbytes < LARGE_BYTES:
            found.copy_(loaded)
    set_unknown(following, found.untyped_storage())
    return found
