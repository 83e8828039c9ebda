"""safetensors' files of the virtual device: without data, as small as those of ``torch.save``.

Trainers save at their end by default; a large model's zeros would fill the disk.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from typing import Any

import torch

_ZIP = b"PK\x03\x04"


def install_safetensors() -> None:
    """Let safetensors save what ``torch.save`` does, and load that, and real files as ever."""
    try:
        library: Any = importlib.import_module("safetensors.torch")
    except ImportError:
        return
    load_file, load = library.load_file, library.load

    def save_file(tensors: dict[str, torch.Tensor], filename: Any, metadata: Any = None, **_: Any) -> None:
        torch.save(dict(tensors), filename)

    def save(tensors: dict[str, torch.Tensor], metadata: Any = None, **_: Any) -> bytes:
        file = io.BytesIO()
        torch.save(dict(tensors), file)
        return file.getvalue()

    def load_file_of_either(filename: Any, device: Any = "cpu", **options: Any) -> Any:
        if zipfile.is_zipfile(filename):
            with open(filename, "rb") as file:  # torch.load knows safetensors' files by their names
                return torch.load(file, map_location=device)
        return load_file(filename, device, **options)

    def load_of_either(data: bytes) -> Any:
        if data.startswith(_ZIP):
            return torch.load(io.BytesIO(data), map_location="cpu")
        return load(data)

    library.save_file, library.save = save_file, save
    library.load_file, library.load = load_file_of_either, load_of_either
