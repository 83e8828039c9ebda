"""Numbers of tensors as a rank's collectives ask for them: followed on cards, in memory on the host."""

from __future__ import annotations

import torch

from ..values.known_values import KnownValues
from ..values.supposed_values import SupposedValues
from .memory_numbers import MemoryNumbers
from .numbers import Number


class FollowedNumbers:
    """What ``stand_in/values`` follows; see ``RankNumbers``."""

    def __init__(self, known: KnownValues, supposed: SupposedValues) -> None:
        self._known = known
        self._supposed = supposed
        self._host = MemoryNumbers()

    def most_elements(self, dtype: torch.dtype) -> int:
        """As on cards."""
        return self._known.most_elements(dtype)

    def knows(self, tensor: torch.Tensor) -> bool:
        """On the host of all that is small."""
        return self._of(tensor).knows(tensor)

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What is known of a card's tensor, or a copy of a host's."""
        return self._of(tensor).of(tensor)

    def uniform(self, tensor: torch.Tensor) -> Number | None:
        """On cards also of large tensors."""
        return self._of(tensor).uniform(tensor)

    def is_assumed(self, tensor: torch.Tensor) -> bool:
        """On cards what comes of random numbers."""
        return self._of(tensor).is_assumed(tensor)

    def keep(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """On cards from here on known."""
        self._of(tensor).keep(tensor, values, assumed=assumed)

    def overwrite(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """On cards from here on known."""
        if tensor.is_cuda:
            self._supposed.forget(tensor)
        self._of(tensor).overwrite(tensor, values, assumed=assumed)

    def note(self, tensor: torch.Tensor, value: Number, *, assumed: bool = False) -> None:
        """On cards from here on known."""
        self._of(tensor).note(tensor, value, assumed=assumed)

    def forget(self, tensor: torch.Tensor) -> None:
        """Neither known nor supposed any more."""
        if tensor.is_cuda:
            self._known.forget(tensor)
            self._supposed.forget(tensor)

    def exchange(self, given: torch.Tensor, received: torch.Tensor, rank: int, size: int) -> None:
        """Of counts that follow from a choice; what is known of a card's tensor is of this rank alone."""
        if given.is_cuda:
            self._supposed.exchange(given, received, rank, size)
        else:
            self._host.exchange(given, received, rank, size)

    def _of(self, tensor: torch.Tensor) -> KnownValues | MemoryNumbers:
        return self._known if tensor.is_cuda else self._host
