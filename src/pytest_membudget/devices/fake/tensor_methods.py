"""Methods of tensors that C++ refuses to fake ones, with what they mean on the virtual device."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .ordinal import check_ordinal
from .refusals import refusal

#: Set on the storage object, which lives as long as the memory.
_PINNED, _SHARED, _MEMORY = "_membudget_pinned", "_membudget_shared", "_membudget_memory"
#: Addresses are made from those of the storage objects, which lie closer together than large tensors do.
_SPREAD = 4096
_DATA: Any = torch.Tensor.data


def install_tensor_methods(
    record_stream: Callable[[torch.Tensor, int], None], pinned: Callable[[torch.Tensor], None]
) -> None:
    """Give fake tensors these methods.

    ``record_stream`` is called with a tensor and a stream's number, ``pinned`` of a tensor in pinned memory.
    """
    fake: Any = FakeTensor

    def pin_memory(tensor: torch.Tensor, device: object = None) -> torch.Tensor:
        copy = _pin_memory(tensor)
        pinned(copy)
        return copy

    torch.Tensor.cuda = _cuda  # type: ignore[method-assign, assignment]
    fake.pin_memory, fake.is_pinned = pin_memory, _is_pinned
    fake.share_memory_, fake.is_shared = _share_memory, _is_shared
    fake.data_ptr = _data_ptr
    fake.__dlpack__ = _no_exchange
    fake.record_stream = lambda tensor, stream: record_stream(tensor, stream.stream_id)
    fake.data = property(_DATA.__get__, _set_data)
    _install_storage_address()


def _cuda(
    tensor: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    wanted = torch.device("cuda" if device is None else device)
    if wanted.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device: {wanted}")
    check_ordinal(wanted)
    return tensor.to(wanted, non_blocking=non_blocking, memory_format=memory_format)


def _set_data(tensor: Any, data: Any) -> None:
    """``tensor.data = data``: it lies where the data lies."""
    _DATA.__set__(tensor, data)
    if isinstance(data, FakeTensor):
        tensor.fake_device = data.fake_device


def _pin_memory(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    if _is_pinned(tensor):
        return tensor
    pinned = tensor.clone(memory_format=torch.preserve_format)
    mark_pinned(pinned)
    return pinned


def mark_pinned(tensor: torch.Tensor) -> None:
    """``tensor``'s storage is of pinned host memory."""
    setattr(tensor.untyped_storage(), _PINNED, True)


def _is_pinned(tensor: torch.Tensor, device: object = None) -> bool:
    return getattr(tensor.untyped_storage(), _PINNED, False)


def _share_memory(tensor: torch.Tensor) -> torch.Tensor:
    setattr(tensor.untyped_storage(), _SHARED, True)
    return tensor


def _is_shared(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda" or getattr(tensor.untyped_storage(), _SHARED, False)


def _data_ptr(tensor: torch.Tensor) -> int:
    """An address that differs between storages: code looks for tensors that share memory by it."""
    if tensor.numel() == 0:
        return 0
    storage = tensor.untyped_storage()
    if tensor.device.type == "cpu":
        _give_memory(storage)
    return int(storage.data_ptr() + tensor.storage_offset() * tensor.itemsize)


def _give_memory(storage: torch.UntypedStorage) -> None:
    """Let a host storage's address be one that other libraries may read from and write to.

    What they write is not known of the tensor's values. Memory that nobody touches costs nothing.
    """
    if not hasattr(storage, _MEMORY):
        setattr(storage, _MEMORY, mmap.mmap(-1, storage.nbytes()))


def _install_storage_address() -> None:
    storages: Any = torch.UntypedStorage
    original = storages.data_ptr

    def data_ptr(storage: torch.UntypedStorage) -> int:
        if storage.device.type != "meta":
            return original(storage)  # type: ignore[no-any-return]
        memory = getattr(storage, _MEMORY, None)
        if memory is not None:
            return ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return storage._cdata * _SPREAD if storage.nbytes() else 0

    storages.data_ptr = data_ptr


def _no_exchange(tensor: torch.Tensor, *args: object, **kwargs: object) -> Any:
    raise refusal(
        "a tensor without data cannot be handed to another library (DLPack) on the virtual device; "
        "pass Tensor.numpy(), which has plausible values"
    )
