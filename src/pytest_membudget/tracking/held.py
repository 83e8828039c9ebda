"""What stays: storages that are alive when a body ends, and those that a step leaves behind."""

from enum import Enum
from typing import Final, NamedTuple

from .record import Record


class StepKind(Enum):
    """What ends a step, the surest sign first."""

    OPTIMIZER = "optimizer"
    BACKWARD = "backward"
    CALL = "call"


class Moment(NamedTuple):
    """The storages that were alive at a moment, and what their blocks came to."""

    alive: tuple[Record, ...] = ()
    allocated_bytes: int = 0


#: A test may call thousands of single layers: the steps of so many optimizers or models are kept.
_MOST: Final = 8


class StepEnds:
    """What was held at the last two ends of a step, for each optimizer, backward or model that ends any.

    Two steps of different models hold different things: a step is compared with one of the same.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[StepKind, object], list[Moment]] = {}

    def add(self, kind: StepKind, of: object, now: Moment) -> None:
        """A step of ``of`` has ended."""
        known = self._ends.pop((kind, of), [])
        self._ends[kind, of] = [*known[-1:], now]
        if len(self._ends) > _MOST:
            del self._ends[next(iter(self._ends))]

    def last_two(self) -> tuple[Moment, Moment] | None:
        """The last step and the one before it, by the surest sign there was; None where none was repeated."""
        for kind in StepKind:
            of_kind = [ends for (one, _), ends in self._ends.items() if one is kind]
            if of_kind:
                return next(((ends[1], ends[0]) for ends in reversed(of_kind) if len(ends) == 2), None)
        return None
