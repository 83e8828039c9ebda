"""What the step was doing, numbered: the allocator's history carries the number with each allocation."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

import torch

from ...tracking.record import Phase

_next_node = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]

#: File and line.
Line = tuple[str, int]


class State(NamedTuple):
    """What was running when storages were born."""

    phase: Phase
    module: str | None = None
    """Path of the innermost running nn.Module."""
    root_call: int | None = None
    """Number of the outermost nn.Module call; None outside any."""
    line: Line | None = None
    """The user's line that called a backward, whose threads run none."""


class StateLog:
    """The states of a run, in order; ``tell`` hands the allocator the number of each, as text.

    PyTorch keeps that text (``user_metadata``) by thread: tell it in the thread that goes on in the state.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.states: list[State] = []
        #: of each state the number that autograd's next node had when it began
        self.first_nodes = array("Q")
        #: one object of each: see ``LateSightings``
        self._distinct: dict[State, State] = {}
        self._tell = tell
        self.enter(State(Phase.FORWARD))

    @property
    def current(self) -> int:
        """The number of the last state."""
        return len(self.states) - 1

    def enter(self, state: State) -> None:
        """From here on, in this thread, the step is in ``state``."""
        self.states.append(self._distinct.setdefault(state, state))
        self.first_nodes.append(_next_node())
        self._tell(str(self.current))

    def renew(self) -> None:
        """The same state under a new number: what is seen here lies between the two."""
        self.enter(self.states[-1])
