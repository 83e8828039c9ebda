"""Reads files of safetensors: what nobody had computed when it was saved is not known when it is loaded.

Large tensors on their way to a card are not read. Since 0.8 the library copies each through pinned memory
(bindings/python/src/lib.rs, ``get_tensor_pinned_cuda``), and the stand-in's runtime makes no large copies.
"""

import importlib
import os
from pathlib import Path
from typing import Any, Final

import torch

from ..host.fills import LARGE_BYTES
from ..values.following import Following
from .holes import set_unknown
from .safetensors_header import unknown_names

#: The names of PyTorch there.
_TORCH: Final = ("pt", "torch", "pytorch")


def opening(following: Following, package: Any) -> type:
    """``safe_open`` of the library for files with unknown values, in place of ``package``'s own."""
    original, copies_through_pinned = package.safe_open, hasattr(package, "TensorSpec")

    class safe_open:  # noqa: N801 - the library's name
        """An open file."""

        def __init__(
            self, filename: str | os.PathLike[str], framework: Any, device: Any = "cpu", **options: Any
        ) -> None:
            self._file = original(filename, framework, device, **options)
            self._unknown = unknown_names(Path(filename))
            # a number is another way for the library: straight from the file
            is_on_card = isinstance(device, str) and device.startswith("cuda") and framework in _TORCH
            self._card = device if is_on_card and copies_through_pinned else None

        def __enter__(self) -> Any:
            self._file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def get_tensor(self, name: str) -> Any:
            """The whole tensor ``name``."""
            large = _unread(self._file.get_slice(name), self._card) if self._card is not None else None
            return self._loaded(name, self._file.get_tensor(name) if large is None else large)

        def get_tensors(self) -> dict[str, Any]:
            """All tensors, by name."""
            if self._card is not None:
                return {name: self.get_tensor(name) for name in self._file.offset_keys()}
            return {name: self._loaded(name, tensor) for name, tensor in self._file.get_tensors().items()}

        def get_slice(self, name: str) -> Any:
            """The tensor ``name``, of which parts can be read."""
            part = self._file.get_slice(name)
            return _Slice(following, part) if name in self._unknown else part

        def _loaded(self, name: str, tensor: Any) -> Any:
            return _without_values(following, tensor) if name in self._unknown else tensor

    return safe_open


def _unread(whole: Any, card: str) -> torch.Tensor | None:
    """The tensor of the slice ``whole`` on ``card``, allocated as the library does; None for a small one."""
    # private: stand_in/saving/test_checkpoints.py loads large tensors
    dtype = importlib.import_module("safetensors.torch")._TYPES.get(whole.get_dtype())
    if dtype is None or torch.Size(whole.get_shape()).numel() * dtype.itemsize <= LARGE_BYTES:
        return None
    return torch.empty(whole.get_shape(), dtype=dtype, pin_memory=True).to(card)


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
