"""safetensors' files of the virtual device: without data, as small as those of ``torch.save``.

Trainers save at their end by default; a large model's zeros would fill the disk.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
from collections.abc import Mapping
from typing import Any

import torch

from .known_values import is_whole
from .saving import restored_on

#: What such a file begins with; the first 8 bytes of a real one are the length of its header.
_HEAD = b"membudget: tensors without data\n"


def install_safetensors() -> None:
    """Let safetensors save what ``torch.save`` does, and load that, and real files as ever."""
    try:
        package: Any = importlib.import_module("safetensors")
        library: Any = importlib.import_module("safetensors.torch")
    except ImportError:
        return
    load, safe_open = library.load, package.safe_open
    names = {dtype: name for name, dtype in getattr(library, "_TYPES", {}).items()}

    def save(tensors: dict[str, torch.Tensor], metadata: Any = None, **_: Any) -> bytes:
        # on the host all at once, as the library has them until the file is written
        copies = {name: _on_host(tensor) for name, tensor in tensors.items()}
        rows = {
            name: (tuple(copy.shape), names.get(copy.dtype, str(copy.dtype)), pickle.dumps(copy))
            for name, copy in copies.items()
        }
        return _HEAD + pickle.dumps((rows, metadata))

    def save_file(tensors: dict[str, torch.Tensor], filename: Any, metadata: Any = None, **_: Any) -> None:
        with open(filename, "wb") as file:
            file.write(save(tensors, metadata))

    def open_either(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        saved = _read(filename)
        return (
            _Opened(saved, device) if saved is not None else safe_open(filename, framework, device, **options)
        )

    def load_file(filename: Any, device: Any = "cpu", **options: Any) -> Any:
        with open_either(filename, "pt", device, **options) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping

    def load_of_either(data: bytes) -> Any:
        if not data.startswith(_HEAD):
            return load(data)
        opened = _Opened(data, "cpu")
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping

    package.safe_open = library.safe_open = open_either
    library.save_file, library.save = save_file, save
    library.load_file, library.load = load_file, load_of_either


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` as a plain one on the host, in a storage of the tensor's size."""
    host = tensor.detach().to("cpu")
    return host if is_whole(host) else host.clone()


def _read(filename: Any) -> bytes | None:
    """The bytes of a file without data; None of any other."""
    with contextlib.suppress(OSError), open(filename, "rb") as file:
        head = file.read(len(_HEAD))
        return head + file.read() if head == _HEAD else None
    return None  # the library says what is wrong with it


class _Opened:
    """What ``safetensors.safe_open`` gives of a file without data: each tensor is made when asked for."""

    def __init__(self, data: bytes, device: Any) -> None:
        rows, self._metadata = pickle.loads(data[len(_HEAD) :])
        self._rows: Mapping[str, tuple[tuple[int, ...], str, bytes]] = rows
        self._device = torch.device("cuda", device) if isinstance(device, int) else device

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close."""

    def keys(self) -> list[str]:
        """The names, sorted as the library sorts them."""
        return sorted(self._rows)

    offset_keys = keys

    def metadata(self) -> dict[str, str] | None:
        """What was saved in addition to the tensors."""
        return self._metadata  # type: ignore[no-any-return]

    def get_tensor(self, name: str) -> torch.Tensor:
        """The tensor of that name, on the device that the file was opened for."""
        with restored_on(self._device):
            return pickle.loads(self._rows[name][2])  # type: ignore[no-any-return]

    def get_tensors(self) -> dict[str, torch.Tensor]:
        """All of them."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> _Slice:
        """The tensor of that name, to be taken in parts."""
        return _Slice(self._rows[name], self._device)


class _Slice:
    """A tensor of a file, of which an index takes a part."""

    def __init__(self, row: tuple[tuple[int, ...], str, bytes], device: Any) -> None:
        self._shape, self._dtype, self._tensor = row
        self._device = device

    def get_shape(self) -> list[int]:
        """Its sizes."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """Its type, as the format names it: ``F32``."""
        return self._dtype

    def __getitem__(self, index: Any) -> torch.Tensor:
        with restored_on("cpu"):
            part: torch.Tensor = pickle.loads(self._tensor)[index]
        return _on_host(part).to(self._device)
