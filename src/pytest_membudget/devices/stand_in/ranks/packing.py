"""Objects of torch itself as bytes, to be handed to another rank: shapes, names and settings, and no data."""

import io
import pickle
from typing import Any

import torch


def packed(value: Any) -> bytes | None:
    """``value`` for ``unpacked``; None where a tensor has data, or it cannot be pickled."""
    file = io.BytesIO()
    try:
        _Packer(file).dump(value)
    except Exception:  # whatever an object raises that is not made to be pickled
        return None
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """What was ``packed``; its tensors, as counts of steps, are zeros."""
    return _Unpacker(io.BytesIO(data)).load()


class _Packer(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return None
        if value.numel() > 1:
            raise pickle.PicklingError("a tensor with data")
        return tuple(value.shape), value.dtype


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, saved: Any) -> torch.Tensor:
        shape, dtype = saved
        return torch.zeros(shape, dtype=dtype, device="cpu")
