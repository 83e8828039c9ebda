"""``torch.cuda.FloatTensor`` and its kin: types from the time when a tensor's type named its device."""

from __future__ import annotations

from typing import Any

import torch

_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class _LegacyType(type):
    """A type whose instances are the cuda tensors of one dtype."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype is cls.dtype

    def __call__(cls, *sizes_or_data: Any) -> torch.Tensor:
        if len(sizes_or_data) == 1 and not isinstance(sizes_or_data[0], (int, torch.Size)):
            return torch.tensor(sizes_or_data[0], dtype=cls.dtype, device="cuda")
        return torch.empty(*sizes_or_data, dtype=cls.dtype, device="cuda")


def install_legacy_types() -> None:
    """Let cuda tensors be made, converted and tested by their old types."""
    for name, dtype in _TYPES.items():
        legacy = _LegacyType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
        setattr(torch.cuda, name, legacy)
    _install_type()
    _install_default_type()


def _install_type() -> None:
    tensors: Any = torch.Tensor
    original = tensors.type

    def convert(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        name = dtype.removeprefix("torch.cuda.") if isinstance(dtype, str) else None
        if isinstance(dtype, _LegacyType):
            return tensor.to("cuda", dtype.dtype, non_blocking)
        if name != dtype and name in _TYPES:
            return tensor.to("cuda", _TYPES[name], non_blocking)
        return original(tensor, dtype, non_blocking, **kwargs)

    tensors.type = convert


def _install_default_type() -> None:
    original = torch.set_default_tensor_type

    def set_default_tensor_type(t: Any) -> None:
        if isinstance(t, _LegacyType):
            torch.set_default_dtype(t.dtype)
            torch.set_default_device("cuda")
        else:
            torch.set_default_device(None)
            original(t)

    torch.set_default_tensor_type = set_default_tensor_type
