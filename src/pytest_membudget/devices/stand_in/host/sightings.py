"""Roles of host tensors, noted on the records of their blocks' addresses."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .... import components
from ....tracking.ledger import Ledger
from ....tracking.live_sightings import owns_storage
from ....tracking.record import Record
from ....tracking.role_rules import has_gradient, note_role
from .memory import storage_address


class AddressSightings:
    """Finds the record of each host tensor that is seen; ``take_in`` brings the ledger up to date."""

    def __init__(self, ledger: Ledger, take_in: Callable[[], None]) -> None:
        self._ledger = ledger
        self._take_in = take_in

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether it lies on the host."""
        return tensor.is_cpu

    def note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        """``tensor``'s storage has this role."""
        record = self._record(tensor)
        if record is not None:
            note_role(record, role, name)
            if record.block.is_pinned:  # the allocator was asked for a power of two
                record.requested_bytes = min(record.requested_bytes, tensor.untyped_storage().nbytes())

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
        if not tensor.is_cpu or not owns_storage(tensor):
            return None
        self._take_in()
        return self._ledger.live.get(storage_address(tensor))
