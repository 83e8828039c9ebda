"""``torch.tensor`` of lists with tensors in them: it reads their values where no mode sees it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._device import _device_constructors


def install_tensor_lists() -> None:
    """Read the tensors in a list first, as any other read."""
    # torch.device as a context knows the functions that it gives a device to by what they are now
    _device_constructors()
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(torch, name, _reading(getattr(torch, name)))


def _reading(original: Any) -> Any:
    @functools.wraps(original)
    def read_first(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not isinstance(data, (list, tuple)) or not _has_tensors(data):
            return original(data, *args, **kwargs)  # type: ignore[no-any-return]
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = functools.reduce(torch.promote_types, _dtypes(data))
        return original(_numbers(data), *args, **kwargs)  # type: ignore[no-any-return]

    return read_first


def _has_tensors(data: Any) -> bool:
    """Whether there is a tensor anywhere in nested lists."""
    return any(
        isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and _has_tensors(value))
        for value in data
    )


def _dtypes(data: Any) -> list[torch.dtype]:
    found: list[torch.dtype] = []
    for value in data:
        if isinstance(value, (list, tuple)):
            found += _dtypes(value)
        elif isinstance(value, torch.Tensor):
            found.append(value.dtype)
        else:
            found.append(torch.result_type(value, value))
    return found


def _numbers(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_numbers(value) for value in data]
    is_number = isinstance(data, torch.Tensor) and data.numel() == 1  # others are refused, as ever
    return data.item() if is_number else data
