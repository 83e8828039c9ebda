"""Roles and turning points seen during a run, to be laid over the allocator's history afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch

from ... import components
from ...tracking.live_sightings import owns_storage
from ...tracking.local_parts import owners

What = Literal["role", "trained", "gradient", "collective", "mark", "root call ended"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that was seen after the allocations of state ``after``, and before those of the next."""

    after: int
    what: What
    address: int = 0
    """Of the storage."""
    role: str = ""
    name: str | None = None
    leaf_address: int = 0
    """Of the storage that a gradient belongs to."""
    is_parameter: bool = False
    number: int = 0
    """Of the root call."""


class LateSightings:
    """Keeps what it is told, with the storages' addresses; ``now`` is the number of the running state.

    In one list of numbers and texts: thousands of objects of their own would have Python collect garbage
    earlier than it does without, and with it cycles that hold a test's tensors.
    """

    def __init__(self, now: Callable[[], int], address_of: Callable[[torch.Tensor], int]) -> None:
        """``address_of``: where a tensor's storage lies, as the history has it."""
        self._fields: list[Any] = []
        self._now = now
        self._address_of = address_of

    @property
    def seen(self) -> list[Sighting]:
        """All of them, in their order."""
        count = len(fields(Sighting))
        return [Sighting(*self._fields[at : at + count]) for at in range(0, len(self._fields), count)]

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether it lies on a CUDA device."""
        return tensor.is_cuda

    def note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        """``tensor``'s storage has this role."""
        if _on_cuda(tensor):
            self._keep("role", self._address_of(tensor), role, name)

    def note_trained(self, parameter: torch.Tensor) -> None:
        """A gradient has reached ``parameter``, or an optimizer holds it."""
        if _on_cuda(parameter):
            self._keep("trained", self._address_of(parameter))

    def note_gradient(
        self, leaf: torch.Tensor, gradient: torch.Tensor, name: str | None, *, is_parameter: bool
    ) -> None:
        """``gradient`` is handed to ``leaf``."""
        if _on_cuda(gradient):
            leaf_address = self._address_of(leaf) if _on_cuda(leaf) else 0
            address = self._address_of(gradient)
            self._keep("gradient", address, components.GRADIENTS, name, leaf_address, is_parameter)

    def note_collective(self, tensor: torch.Tensor, *, kept: bool) -> None:
        """A collective uses ``tensor``; ``kept``: it is a buffer that is kept for that."""
        role = components.COLLECTIVES if kept else ""
        for part in owners(tensor):
            if _on_cuda(part):
                self._keep("collective", self._address_of(part), role)

    def note_mark(self) -> None:
        """What the forward left over is taken up from here on."""
        self._keep("mark")

    def note_root_call_end(self, number: int) -> None:
        """The outermost module call ``number`` has returned."""
        self._keep("root call ended", number=number)

    def _keep(
        self,
        what: What,
        address: int = 0,
        role: str = "",
        name: str | None = None,
        leaf_address: int = 0,
        is_parameter: bool = False,
        number: int = 0,
    ) -> None:
        self._fields += (self._now(), what, address, role, name, leaf_address, is_parameter, number)


def _on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and owns_storage(tensor)


def storage_address(tensor: torch.Tensor) -> int:
    """Where ``tensor``'s storage begins; 0 for a tensor without data, as ``torch.export`` traces with.

    Not by ``untyped_storage()``: autograd adds no more in place to a storage that Python has seen.
    """
    try:
        return tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
    except RuntimeError:
        return 0
