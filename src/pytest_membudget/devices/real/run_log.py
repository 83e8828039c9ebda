"""RunLog: records states, roles and marks during a run, which ``overlay`` joins with the history.

States are numbered: the history has the number of the state of each allocation.
"""

import threading
from array import array
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch

from ...tracking.record import Line, Phase
from ...tracking.roles.tensor_parts import owns_storage, storage_begin
from .kernels import nodes_of_the_run


class State(NamedTuple):
    """The state of the step when storages were allocated."""

    phase: Phase
    module: str | None = None
    """Path of the innermost running nn.Module."""
    root_call: int | None = None
    """Number of the outermost nn.Module call; None outside any."""
    line: Line | None = None
    """The user's line that called a backward, whose threads have no Python stack."""
    forward: Line | None = None
    """In a backward the line of the forward that made the running node; None where it is not known."""


class Sighting(NamedTuple):
    """A sighting after the allocations of state ``after``, and before those of the next."""

    after: int
    write: Callable[..., None]
    """A method of ``Record``, or of ``Ledger``."""
    addresses: tuple[int, ...] = ()
    """The storages whose records it is called with; none for a method of the ledger."""
    args: tuple[Any, ...] = ()
    """Its further arguments."""


class Seen(NamedTuple):
    """The states and sightings of a run, each in their order."""

    states: Sequence[State]
    sightings: Sequence[Sighting]
    first_nodes: Sequence[int] = ()
    """By state: the number of autograd's next node when it began."""
    outermost: Collection[str] = ()
    """The names that outermost modules have as their path, which those inside do not begin with."""

    def path_in(self, module: str | None, inner: str | None) -> str | None:
        """The path of what lies at ``inner`` in ``module``."""
        if inner is None or module is None or module in self.outermost:
            return inner or module
        return f"{module}.{inner}"

    def records_a_graph(self, state: int) -> bool:
        """Whether autograd made nodes in ``state``: a function ran on what requires a gradient."""
        return state + 1 < len(self.first_nodes) and self.first_nodes[state] < self.first_nodes[state + 1]


def state_in(metadata: str) -> int | None:
    """The number of the state in an event's metadata; None in another's."""
    number = metadata.partition(" ")[0]
    return int(number) if number.isdecimal() else None


def own_text(metadata: str) -> str:
    """What the body has set as an event's metadata."""
    return metadata.partition(" ")[2]


class _Texts(threading.local):
    """PyTorch keeps metadata by thread."""

    text = ""


class RunLog:
    """Collects the states of a run, and what is noted of storages by their addresses.

    ``set_metadata`` passes the number of each state to the allocator, as text (``user_metadata``). PyTorch
    keeps that by thread: enter a state in the thread that runs in it.

    Sightings are in one list of numbers and texts: thousands of objects would make Python collect garbage
    earlier than without, and with it reference cycles that hold a test's tensors.
    """

    def __init__(self, set_metadata: Callable[[str], object]) -> None:
        self.states: list[State] = []
        self.outermost: set[str] = set()
        self._first_nodes = array("Q")
        self._distinct: dict[State, State] = {}  # one object of each
        #: of each sighting the state, the method, the numbers of addresses and arguments, and these
        self._fields: list[Any] = []
        self._set_metadata = set_metadata
        self._texts = _Texts()
        self.enter(State(Phase.FORWARD))

    @property
    def state(self) -> int:
        """The number of the state."""
        return len(self.states) - 1

    @property
    def text(self) -> str:
        """The metadata that the body has set in this thread."""
        return self._texts.text

    def set_text(self, text: str) -> None:
        """The body sets its own metadata, which is behind the number of the state."""
        self._texts.text = text
        self._set_metadata(f"{self.state} {text}")

    def enter(self, state: State) -> None:
        """Enter ``state`` in this thread."""
        self.states.append(self._distinct.setdefault(state, state))
        self._first_nodes.append(nodes_of_the_run())
        text = self._texts.text
        self._set_metadata(f"{self.state} {text}" if text else str(self.state))

    def renew(self) -> None:
        """The same state under a new number: sightings up to here come before its allocations."""
        self.enter(self.states[-1])

    def note(self, write: Callable[..., None], tensors: Sequence[torch.Tensor], *args: object) -> None:
        """A ``Note`` of ``RoleBook``, if the first tensor is on a CUDA device; without any, of the ledger."""
        if not tensors or _on_cuda(tensors[0]):
            addresses = [storage_begin(tensor) if _on_cuda(tensor) else 0 for tensor in tensors]
            self._fields += (self.state, write, len(addresses), len(args), *addresses, *args)

    def seen(self) -> Seen:
        """All that was collected."""
        sightings, fields = [], iter(self._fields)
        for after in fields:
            write, addresses, args = islice(fields, 3)
            sightings.append(
                Sighting(after, write, tuple(islice(fields, addresses)), tuple(islice(fields, args)))
            )
        return Seen(self.states, sightings, self._first_nodes, self.outermost)


def _on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and owns_storage(tensor)
