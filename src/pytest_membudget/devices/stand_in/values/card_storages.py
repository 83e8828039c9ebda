"""The storages of tensors on the stand-in's cards: real memory, into which no kernel writes.

Nothing here makes a storage's Python object. Autograd adds gradients in place where nobody else has their
storage (``can_accumulate_inplace``, torch/csrc/autograd/input_buffer.cpp, 2.15), and that object counts as
somebody: a storage that was looked at would take more memory than on a card. So storages are known by the
address that they begin at, until that memory is given to somebody else (``followed_memory``).
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...fake.known_values import Entry, Scalar
from .followed_memory import FollowedMemory

#: The device's memory is written to for tensors up to this size; larger ones have one value throughout.
_MOST_BYTES = 2**20


class CardStorages:
    """Storages on cards, by address."""

    def __init__(self, memory: FollowedMemory) -> None:
        self._memory = memory
        self._given = memory.given

    def follows(self, tensor: torch.Tensor) -> bool:
        """Whether it lies on a card, and has a storage with memory; autograd's efficient zeros have none."""
        return tensor.is_cuda and tensor.layout is torch.strided and not tensor._is_zerotensor()

    def key(self, tensor: torch.Tensor) -> int:
        """Where its storage begins; 0 of an empty tensor. The calls are few: it runs for every operator."""
        if self._given.value:  # here, so that nothing is asked or noted before
            self._memory.forget_given()
        address, offset = tensor.data_ptr(), int(tensor.storage_offset())
        return address - offset * tensor.itemsize if offset and address else address

    def holds(self, entry: Entry, tensor: torch.Tensor) -> bool:
        """Whether all of ``tensor`` lies in what ``entry`` is about."""
        end = (int(tensor.storage_offset()) + _extent(tensor)) * tensor.itemsize
        return end <= entry.elements * entry.dtype.itemsize

    def is_whole(self, tensor: torch.Tensor) -> bool:
        """Whether it begins where its storage does, without holes: what lies behind it is nobody's."""
        if tensor.storage_offset():
            return False
        return tensor.is_contiguous() or _extent(tensor) == tensor.numel()

    def elements(self, tensor: torch.Tensor) -> int:
        """All of them, of a tensor that is whole."""
        return tensor.numel()

    def reference(self, tensor: torch.Tensor, gone: Callable[[Any], None] | None = None) -> Callable[[], Any]:
        """A weak one, where somebody waits for the end of a tensor that is no gradient."""
        self._memory.follow(self.key(tensor), tensor.numel() * tensor.itemsize)
        if gone is None or tensor.is_floating_point() or tensor.is_complex():
            return _alive
        return weakref.ref(tensor.untyped_storage(), gone)

    def constant(self, tensor: torch.Tensor) -> None:
        """Fake tensors alone have one."""

    def written(self, tensor: torch.Tensor, values: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
        """Small ones are written to the card's memory, where ATen's own code may read them."""
        size = tensor.numel() * tensor.itemsize
        if isinstance(values, torch.Tensor):
            return seen_from_host(self.key(tensor), values.nbytes, values.dtype).copy_(values)
        if 0 < size <= _MOST_BYTES:
            seen_from_host(self.key(tensor), size, tensor.dtype).fill_(values)
        return values


def seen_from_host(address: int, size_bytes: int, dtype: torch.dtype) -> torch.Tensor:
    """A flat host tensor over ``size_bytes`` of a card's memory."""
    if not size_bytes:
        return torch.empty(0, dtype=dtype, device="cpu")
    memory = (ctypes.c_char * size_bytes).from_address(address)
    return torch.frombuffer(memory, dtype=dtype)


def _alive() -> Any:
    """Stands for a storage of which nobody says when it ends."""
    return _alive


def _extent(tensor: torch.Tensor) -> int:
    """Elements from the first to the last one of ``tensor``."""
    if tensor.is_contiguous():
        return tensor.numel()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return last + 1 if tensor.numel() else 0
