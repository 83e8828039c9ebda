"""Records states, roles and marks during a run; ``overlay`` joins them with the allocator's history.

States are numbered: the history has the number of the state of each allocation.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch

from ... import components
from ...tracking.record import Phase
from ...tracking.roles.tensor_parts import owners, owns_storage

_next_node = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]

#: File and line.
Line = tuple[str, int]


class State(NamedTuple):
    """The state of the step when storages were allocated."""

    phase: Phase
    module: str | None = None
    """Path of the innermost running nn.Module."""
    root_call: int | None = None
    """Number of the outermost nn.Module call; None outside any."""
    line: Line | None = None
    """The user's line that called a backward, whose threads have no Python stack."""


class StateLog:
    """The states of a run, in order; ``set_metadata`` passes the number of each to the allocator, as text.

    PyTorch keeps that text (``user_metadata``) by thread: enter a state in the thread that runs in it.
    """

    def __init__(self, set_metadata: Callable[[str], object]) -> None:
        self.states: list[State] = []
        #: by state: the number of autograd's next node when it began
        self.first_nodes = array("Q")
        #: one object of each: see ``LateSightings``
        self._distinct: dict[State, State] = {}
        self._set_metadata = set_metadata
        self.enter(State(Phase.FORWARD))

    @property
    def current(self) -> int:
        """The number of the last state."""
        return len(self.states) - 1

    def enter(self, state: State) -> None:
        """Enter ``state`` in this thread."""
        self.states.append(self._distinct.setdefault(state, state))
        self.first_nodes.append(_next_node())
        self._set_metadata(str(self.current))

    def renew(self) -> None:
        """The same state under a new number: sightings up to here come before its allocations."""
        self.enter(self.states[-1])

    def renewing(self, see: Callable[..., object]) -> Callable[..., None]:
        """``see``, then a new number before the next allocations: buffers of collectives are short-lived."""

        def seen(*args: Any, **kwargs: Any) -> None:
            see(*args, **kwargs)
            self.renew()

        return seen


What = Literal["role", "trained", "gradient", "collective", "copy", "mark", "root call ended"]


class Sighting(NamedTuple):
    """A sighting after the allocations of state ``after``, and before those of the next."""

    after: int
    what: What
    address: int = 0
    """The address of the storage."""
    role: str = ""
    name: str | None = None
    leaf_address: int = 0
    """Of the storage that a gradient belongs to, or that was copied."""
    is_parameter: bool = False
    number: int = 0
    """The number of the root call."""


class LateSightings:
    """Sightings by the storages' addresses; ``now`` is the number of the running state.

    In one list of numbers and texts: thousands of objects would make Python collect garbage earlier than
    without, and with it reference cycles that hold a test's tensors.
    """

    def __init__(self, now: Callable[[], int], address_of: Callable[[torch.Tensor], int]) -> None:
        """``address_of``: where a tensor's storage lies, as the history has it."""
        self._fields: list[Any] = []
        self._now = now
        self._address_of = address_of

    @property
    def seen(self) -> list[Sighting]:
        """All of them, in their order."""
        count = len(Sighting._fields)
        return [Sighting(*self._fields[at : at + count]) for at in range(0, len(self._fields), count)]

    def concerns(self, tensor: torch.Tensor) -> bool:
        """Whether it lies on a CUDA device."""
        return tensor.is_cuda

    def note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        """``tensor``'s storage has this role."""
        if _on_cuda(tensor):
            self._keep("role", address=self._address_of(tensor), role=role, name=name)

    def note_trained(self, parameter: torch.Tensor) -> None:
        """A gradient has reached ``parameter``, or an optimizer holds it."""
        if _on_cuda(parameter):
            self._keep("trained", address=self._address_of(parameter))

    def note_gradient(
        self, leaf: torch.Tensor, gradient: torch.Tensor, name: str | None, *, is_parameter: bool
    ) -> None:
        """Autograd passes ``gradient`` to ``leaf``."""
        if _on_cuda(gradient):
            self._keep(
                "gradient",
                address=self._address_of(gradient),
                role=components.GRADIENTS,
                name=name,
                leaf_address=self._address_of(leaf) if _on_cuda(leaf) else 0,
                is_parameter=is_parameter,
            )

    def note_copy(self, source: torch.Tensor, copy: torch.Tensor) -> None:
        """``copy`` has the values of ``source``."""
        if _on_cuda(source) and _on_cuda(copy):
            self._keep("copy", address=self._address_of(copy), leaf_address=self._address_of(source))

    def note_collective(self, tensor: torch.Tensor, *, kept: bool) -> None:
        """A collective uses ``tensor``; ``kept``: it is a buffer that is kept for that."""
        role = components.COLLECTIVES if kept else ""
        for part in owners(tensor):
            if _on_cuda(part):
                self._keep("collective", address=self._address_of(part), role=role)

    def note_mark(self) -> None:
        """What the forward saved is used from here on."""
        self._keep("mark")

    def note_root_call_end(self, number: int) -> None:
        """The outermost module call ``number`` has returned."""
        self._keep("root call ended", number=number)

    def _keep(self, what: What, **known: Any) -> None:
        self._fields += Sighting(self._now(), what, **known)


def _on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and owns_storage(tensor)


def storage_address(tensor: torch.Tensor) -> int:
    """Where ``tensor``'s storage begins; 0 for a tensor without data, as ``torch.export`` traces with.

    Without ``untyped_storage()``: autograd does not add in place to a storage that Python has an object of.
    """
    try:
        return tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
    except RuntimeError:
        return 0
