"""Numbers of small tensors as they are in the stand-in's memory, which the host can read and write."""

from __future__ import annotations

import ctypes
from typing import Protocol

import torch

from .numbers import Number, Numbers

#: Elements of a tensor that is followed: counters, sizes, flags, lists of ids.
_MOST_ELEMENTS = 2**16


class RankNumbers(Numbers, Protocol):
    """What a rank's collectives ask of known numbers."""

    def exchange(self, given: torch.Tensor, received: torch.Tensor, rank: int, size: int) -> None:
        """Ranks have sent each other equal parts of ``given``; each is taken to have sent as this one."""


class MemoryNumbers:
    """What a tensor's memory holds counts as known, where the tensor is small; see ``Numbers``."""

    def most_elements(self, dtype: torch.dtype) -> int:
        """The same for all types."""
        return _MOST_ELEMENTS

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether ``tensor`` is small enough, and plain."""
        return (
            tensor.layout is torch.strided
            and not tensor.is_quantized
            and 0 < tensor.numel() <= _MOST_ELEMENTS
            and tensor.device.type in ("cuda", "cpu")
        )

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A copy of what is there."""
        return host_view(tensor).clone() if self.knows(tensor) else None

    def uniform(self, tensor: torch.Tensor) -> Number | None:
        """Memory says nothing of what is too large to look at."""
        return None

    def is_assumed(self, tensor: torch.Tensor) -> bool:
        """Memory does not say where its numbers come from."""
        return False

    def keep(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """Write ``values`` to where ``tensor`` lies."""
        if self.knows(tensor):
            host_view(tensor).copy_(values)

    def overwrite(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """Write ``values`` to where ``tensor`` lies."""
        self.keep(tensor, values)

    def note(self, tensor: torch.Tensor, value: Number, *, assumed: bool = False) -> None:
        """Write ``value`` to all of a small tensor."""
        if self.knows(tensor):
            host_view(tensor).fill_(value)

    def forget(self, tensor: torch.Tensor) -> None:
        """Memory stays what it is."""

    def exchange(self, given: torch.Tensor, received: torch.Tensor, rank: int, size: int) -> None:
        """Write the part that is meant for this rank, as often as there are ranks."""
        values = self.of(given)
        if values is not None and values.dim() and values.shape[0] % size == 0 and self.knows(received):
            self.keep(received, torch.cat(size * [values.chunk(size)[rank]]), assumed=True)


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``, which is on a card of the stand-in's, as a host tensor over the same memory."""
    if tensor.device.type == "cpu":
        return tensor.detach()
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    span = 1 + sum((size - 1) * stride for size, stride in steps)
    memory = (ctypes.c_char * (span * tensor.itemsize)).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
