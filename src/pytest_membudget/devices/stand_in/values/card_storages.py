"""The storages of tensors without data on the stand-in: real memory, into which no kernel writes.

They lie on a card, or on the host where they hold a copy of what nobody knows.

Nothing here makes a storage's Python object. Autograd adds gradients in place where nobody else has their
storage (``can_accumulate_inplace``, torch/csrc/autograd/input_buffer.cpp, 2.15), and that object counts as
somebody: a storage that was looked at would take more memory than on a card. So storages are known by the
address that they begin at, until that memory is given to somebody else (``followed_memory``).
"""

import ctypes
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ..host.memory import HostMemory
from .followed_memory import FollowedMemory

Scalar = bool | int | float | complex

#: The device's memory is written to for tensors up to this size; larger ones have one value throughout.
_MOST_BYTES = 2**20


class Entry(NamedTuple):
    """What is known of one storage."""

    #: gives the storage as long as it lives
    storage: Callable[[], Any]
    #: the storage's elements as a flat host tensor, or the one value of them all
    values: torch.Tensor | Scalar
    dtype: torch.dtype
    #: plausible only: a draw of random numbers, or what was computed from one
    assumed: bool
    #: how many elements from the storage's start on this is about: all, where its size can be asked for
    elements: int
    #: what is plausible is that all ranks have the same: no other variant gives another number
    is_of_all_ranks: bool = False


class CardStorages:
    """Storages on cards, and hollow ones on the host, by address."""

    def __init__(self, memory: FollowedMemory, host: HostMemory) -> None:
        self._memory = memory
        self._given = memory.given
        self._host = host
        self._hollow_blocks = host.hollow_blocks

    def follows(self, tensor: torch.Tensor) -> bool:
        """Whether it lies on a card or is hollow, and has memory; autograd's efficient zeros have none."""
        if not tensor.is_cuda:
            return bool(self._hollow_blocks.value) and self._is_hollow(tensor)
        return tensor.layout is torch.strided and not tensor._is_zerotensor()

    def _is_hollow(self, tensor: torch.Tensor) -> bool:
        is_strided = tensor.device.type == "cpu" and tensor.layout is torch.strided
        return is_strided and self._host.hollow(tensor) != 0

    def key(self, tensor: torch.Tensor) -> int:
        """Where its storage begins; 0 of an empty tensor. The calls are few: it runs for every operator."""
        if self._given.value:  # here, so that nothing is asked or noted before
            self._memory.forget_given()
        address, offset = tensor.data_ptr(), int(tensor.storage_offset())
        return address - offset * tensor.itemsize if offset and address else address

    def holds(self, entry: Entry, tensor: torch.Tensor) -> bool:
        """Whether all of ``tensor`` lies in what ``entry`` is about."""
        if not tensor.is_cuda and entry.storage() is not tensor.untyped_storage():
            return False  # nobody reports which host memory is given to somebody else
        end = (int(tensor.storage_offset()) + _extent(tensor)) * tensor.itemsize
        return end <= entry.elements * entry.dtype.itemsize

    def is_whole(self, tensor: torch.Tensor) -> bool:
        """Whether it begins where its storage does, without holes: what lies behind it is nobody's."""
        if tensor.storage_offset():
            return False
        return tensor.is_contiguous() or _extent(tensor) == tensor.numel()

    def reference(self, tensor: torch.Tensor, gone: Callable[[Any], None] | None = None) -> Callable[[], Any]:
        """A weak one, where somebody waits for the end of a tensor that is no gradient, and on the host."""
        if not tensor.is_cuda:
            return weakref.ref(tensor.untyped_storage(), gone)
        self._memory.follow(self.key(tensor), tensor.numel() * tensor.itemsize)
        if gone is None or tensor.is_floating_point() or tensor.is_complex():
            return _alive
        return weakref.ref(tensor.untyped_storage(), gone)

    def written(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        """Small ones are written to the tensor's memory, where ATen's own code may read them."""
        if tensor.is_cuda:
            return self._write(tensor, values)
        reason = self._host.hollow(tensor)
        self._write(tensor, values)
        self._host.set_hollow(tensor, reason)  # it was not the test that wrote
        return values

    def _write(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        size = tensor.numel() * tensor.itemsize
        if isinstance(values, torch.Tensor):
            return seen_from_host(self.key(tensor), values.nbytes, values.dtype).copy_(values)
        if 0 < size <= _MOST_BYTES:
            # a number beyond the range of its type, as the sum of many halves, is infinite
            value = torch.tensor(values, dtype=tensor.dtype, device="cpu")
            seen_from_host(self.key(tensor), size, tensor.dtype).fill_(value)
        return values


def seen_from_host(address: int, size_bytes: int, dtype: torch.dtype) -> torch.Tensor:
    """A flat host tensor over ``size_bytes`` of a card's memory."""
    if not size_bytes:
        return torch.empty(0, dtype=dtype, device="cpu")
    memory = (ctypes.c_char * size_bytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype)


def _alive() -> Any:
    """Replaces a storage whose end nobody reports."""
    return _alive


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first to the last one of ``tensor``."""
    if tensor.is_contiguous():
        return tensor.numel()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return last + 1 if tensor.numel() else 0
