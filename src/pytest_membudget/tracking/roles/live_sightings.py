"""Writes roles to the records of live storages, at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import components
from ..record import Record, has_gradient


class LiveSightings:
    """Notes roles on the record of each tensor, as ``find`` has it: None for tensors that are not tracked."""

    def __init__(
        self,
        find: Callable[[torch.Tensor], Record | None],
        concerns: Callable[[torch.Tensor], bool] = lambda tensor: True,
    ) -> None:
        self._find = find
        self.concerns = concerns

    def note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        """``tensor``'s storage has this role."""
        record = self._find(tensor)
        if record is not None:
            record.note_role(role, name)

    def note_trained(self, parameter: torch.Tensor) -> None:
        """A gradient has reached ``parameter``, or an optimizer holds it."""
        record = self._find(parameter)
        if record is not None:
            record.trained = True

    def note_gradient(
        self, leaf: torch.Tensor, gradient: torch.Tensor, name: str | None, *, is_parameter: bool
    ) -> None:
        """Autograd passes ``gradient`` to ``leaf``."""
        if has_gradient(self._find(leaf), is_parameter=is_parameter):
            self.note_trained(leaf)
            self.note(gradient, components.GRADIENTS, name)

    def note_copy(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        """``copy`` has the values of ``source``."""
        original, record = self._find(source), self._find(copy)
        if original is not None and record is not None:
            record.note_copy(original)
