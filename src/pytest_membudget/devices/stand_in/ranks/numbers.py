"""What collectives ask of a device that knows some of its tensors' numbers."""

from __future__ import annotations

from typing import Protocol

import torch

Number = bool | int | float | complex


class Numbers(Protocol):
    """The known numbers of tensors: ``KnownValues`` of fake tensors, or those in a stand-in's memory."""

    def most_elements(self, dtype: torch.dtype) -> int:
        """How many elements a tensor of ``dtype`` may have for its numbers to be followed."""

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The numbers of ``tensor`` as a host tensor of its shape, if they are known; read only."""

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether something is known of ``tensor``; cheaper than ``of``, which may still give None."""

    def uniform(self, tensor: torch.Tensor) -> Number | None:
        """The one number that all elements of ``tensor`` are, where that is what is known."""

    def is_assumed(self, tensor: torch.Tensor) -> bool:
        """Whether what is known of ``tensor`` is plausible only."""

    def keep(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """From here on ``tensor``, which is all of its storage, holds ``values``."""

    def overwrite(self, tensor: torch.Tensor, values: torch.Tensor, *, assumed: bool = False) -> None:
        """``values`` are written to ``tensor``, which may be a part of its storage."""

    def note(self, tensor: torch.Tensor, value: Number, *, assumed: bool = False) -> None:
        """From here on all elements of ``tensor`` are ``value``."""

    def forget(self, tensor: torch.Tensor) -> None:
        """From here on nothing is known of ``tensor``."""
