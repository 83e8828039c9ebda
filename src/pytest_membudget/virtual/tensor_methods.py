"""Methods of tensors that C++ refuses to fake ones, with what they mean on the virtual device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import NotAvailable
from .torch_cuda import check_ordinal

#: Set on the storage object, which lives as long as the memory.
_PINNED, _SHARED = "_membudget_pinned", "_membudget_shared"
#: Addresses are made from those of the storage objects, which lie closer together than large tensors do.
_SPREAD = 4096
#: Functions of safetensors.torch (0.4 to 0.8) that read the memory at the address, and would crash.
_READ_MEMORY = ("_tobytes", "_to_ndarray")


def install_tensor_methods(record_stream: Callable[[torch.Tensor, int], None]) -> None:
    """Give fake tensors these methods; ``record_stream`` is told of a tensor and a stream's number."""
    fake: Any = FakeTensor
    torch.Tensor.cuda = _cuda  # type: ignore[method-assign, assignment]
    fake.pin_memory, fake.is_pinned = _pin_memory, _is_pinned
    fake.share_memory_, fake.is_shared = _share_memory, _is_shared
    fake.data_ptr = _data_ptr
    fake.__dlpack__ = _no_exchange
    fake.record_stream = lambda tensor, stream: record_stream(tensor, stream.stream_id)
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


def _pin_memory(tensor: torch.Tensor, device: object = None) -> torch.Tensor:
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
    """An address that tells storages apart: code looks for tensors that share memory by it."""
    if sys._getframe(1).f_code.co_name in _READ_MEMORY:
        raise NotAvailable(
            "safetensors writes the data of tensors, and those of the virtual device have none; "
            "save outside the budgeted test, or with torch.save, which needs no data here"
        )
    if tensor.numel() == 0:
        return 0
    return int(tensor.untyped_storage()._cdata * _SPREAD + tensor.storage_offset() * tensor.itemsize)


def _install_storage_address() -> None:
    storages: Any = torch.UntypedStorage
    original = storages.data_ptr

    def data_ptr(storage: torch.UntypedStorage) -> int:
        if storage.device.type != "meta":
            return original(storage)  # type: ignore[no-any-return]
        return storage._cdata * _SPREAD if storage.nbytes() else 0

    storages.data_ptr = data_ptr


def _no_exchange(tensor: torch.Tensor, *args: object, **kwargs: object) -> Any:
    raise NotAvailable(
        "a tensor without data cannot be handed to another library (DLPack) on the virtual device; "
        "pass Tensor.numpy(), which has plausible values"
    )
