"""Roles noted at once, on the records of the storages that are alive."""

from __future__ import annotations

import torch

from .. import components
from .ledger import Ledger
from .record import Record
from .role_rules import has_gradient, note_role


class LiveSightings:
    """Finds the record of each tensor that is seen in one of the ledgers: the device's, the host's."""

    def __init__(self, *ledgers: Ledger) -> None:
        self._lives = [ledger.live for ledger in ledgers]

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Of the device and of the host."""
        return True

    def note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        """``tensor``'s storage has this role."""
        record = self._record(tensor)
        if record is not None:
            note_role(record, role, name)

    def note_trained(self, parameter: torch.Tensor) -> None:
        """A gradient has reached ``parameter``, or an optimizer holds it."""
        record = self._record(parameter)
        if record is not None:
            record.trained = True

    def note_gradient(
        self, leaf: torch.Tensor, gradient: torch.Tensor, name: str | None, *, is_parameter: bool
    ) -> None:
        """``gradient`` is handed to ``leaf``."""
        if has_gradient(self._record(leaf), is_parameter=is_parameter):
            self.note_trained(leaf)
            self.note(gradient, components.GRADIENTS, name)

    def _record(self, tensor: torch.Tensor) -> Record | None:
        if not owns_storage(tensor):
            return None
        key = tensor.untyped_storage()._cdata
        return next((live[key] for live in self._lives if key in live), None)


def owns_storage(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` has memory of its own: a sparse one has none, nor has one inside torch.func."""
    return tensor.layout is torch.strided and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
