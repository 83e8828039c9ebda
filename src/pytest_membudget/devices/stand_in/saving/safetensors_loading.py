"""Large tensors that safetensors loads onto a card: allocated as the library does, and not read.

Since 0.8 it copies each through pinned memory (bindings/python/src/lib.rs, ``get_tensor_pinned_cuda``).
The stand-in's runtime makes no large copies, so that all that is read would be dropped.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

import torch

from ...after_import import after_import
from ..host.fills import LARGE_BYTES

#: The names of PyTorch there.
_TORCH: Final = ("pt", "torch", "pytorch")


def install_loading() -> None:
    """Change ``safetensors.safe_open`` for cards, for the rest of the process, as soon as it is imported."""
    after_import("safetensors", _install)


def _install(package: Any) -> None:
    original = package.safe_open
    if not hasattr(package, "TensorSpec"):  # before 0.8
        return

    @functools.wraps(original, updated=())
    def safe_open(filename: Any, framework: Any, device: Any = "cpu", **options: Any) -> Any:
        opened = original(filename, framework, device, **options)
        # a number is another way for the library: straight from the file
        is_on_card = isinstance(device, str) and device.startswith("cuda")
        return _Opened(opened, device) if is_on_card and framework in _TORCH else opened

    package.safe_open = safe_open  # safetensors_files.py gives it to ``safetensors.torch``


class _Opened:
    """What ``safe_open`` gives for a card."""

    def __init__(self, file: Any, device: str) -> None:
        self._file = file
        self._device = device
        # private: stand_in/saving/test_checkpoints.py loads large tensors
        self._types = importlib.import_module("safetensors.torch")._TYPES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Opened:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    def get_tensor(self, name: str) -> torch.Tensor:
        """The tensor of that name, on the card."""
        whole = self._file.get_slice(name)
        shape, dtype = whole.get_shape(), self._types.get(whole.get_dtype())
        if dtype is None or torch.Size(shape).numel() * dtype.itemsize <= LARGE_BYTES:
            small: torch.Tensor = self._file.get_tensor(name)
            return small
        return torch.empty(shape, dtype=dtype, pin_memory=True).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All of them."""
        return {name: self.get_tensor(name) for name in self._file.offset_keys()}
