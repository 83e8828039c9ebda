"""Joins the records of a run with the allocator's history of it, into a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ... import components
from ...allocator.history import DeviceHistory, HistoryEvent
from ...tracking.ledger import Ledger
from ...tracking.record import Phase, Record
from .origins import Origins, UsersLine
from .run_log import Seen, State


def overlay(history: DeviceHistory, seen: Seen, users_line: UsersLine, ledger: Ledger) -> None:
    """Play a run's ``history`` into ``ledger``, which is empty, from its first event on.

    An event's metadata is the number of its state; without one its block is ``unattributed``.
    """
    played = _Played(ledger, seen, users_line)
    for number, (event, following) in enumerate(zip_longest(history.events, history.events[1:])):
        played.play(number, event, following)
    played.see(len(seen.states))


class _Played:
    def __init__(self, ledger: Ledger, seen: Seen, users_line: UsersLine) -> None:
        self.ledger = ledger
        self._seen = seen
        self._for_update = _states_for_update(seen.states)
        self._next = 0
        self._origins = Origins(users_line)
        self._state = 0
        #: whether nothing of the model has run since the last backward: new tensors are then a batch
        self._before_model = True

    def play(self, number: int, event: HistoryEvent, following: HistoryEvent | None) -> None:
        """Apply one event of the history, after the sightings before it."""
        is_known = event.text.isdecimal() and int(event.text) < len(self._seen.states)
        if is_known:
            self._move_to(int(event.text))
        if event.action == "alloc":
            self._born(number, event, is_known)
        elif event.action == "free_completed":
            if event.address in self.ledger.live:
                self.ledger.died(event.address)
        elif event.action in ("segment_free", "segment_unmap") and (
            following is None or following.action != event.action
        ):
            self.ledger.allocator.empty_cache()

    def _move_to(self, state: int) -> None:
        if state > self._state:
            self.see(state)
            self._state = state
        phase, root_call = self._seen.states[state].phase, self._seen.states[state].root_call
        if phase in (Phase.OPTIMIZER, Phase.BACKWARD):
            self._before_model = True
        elif root_call is not None:
            self._before_model = False

    def see(self, state: int) -> None:
        """Apply the sightings before the allocations of ``state``."""
        sightings = self._seen.sightings
        while self._next < len(sightings) and sightings[self._next].after < state:
            sighting = sightings[self._next]
            self._next += 1
            records = [self.ledger.live.get(address) for address in sighting.addresses]
            if not records:
                sighting.write(self.ledger, *sighting.args)
            elif records[0] is not None:
                sighting.write(*records, *sighting.args)

    def _born(self, number: int, event: HistoryEvent, is_known: bool) -> None:
        state = self._seen.states[self._state]
        origin = self._origins.of(event.frames)
        record = Record(event.size_bytes, origin.operator, state.phase)
        record.event = number
        record.module, record.root_call = state.module, state.root_call
        if state.phase is Phase.FORWARD and state.module is None:
            record.for_update = bool(self._for_update[self._state]) and not origin.makes_new_values
            record.from_inputs = origin.makes_new_values or self._prepares_inputs()
        if origin.is_workspace:
            record.role = components.WORKSPACES
        elif not is_known:
            record.role = components.UNATTRIBUTED
        line = origin.line or state.line
        if line is not None:
            record.file, record.line = line
        if event.address in self.ledger.live:  # its end is missing
            self.ledger.died(event.address)
        self.ledger.born(event.address, record, event.stream)

    def _prepares_inputs(self) -> bool:
        """Whether what the state makes of other tensors is a batch too.

        Not where autograd records a function of the same state, though a batch may be made before it there.
        """
        of_update = self._for_update[self._state] or self._seen.records_a_graph(self._state)
        return self._before_model and not of_update


def _states_for_update(states: Sequence[State]) -> bytearray:
    """For each state whether it is between a backward and the optimizer's step, outside modules."""
    found = bytearray(len(states))
    after_backward = before_step = False
    for number, state in enumerate(states):
        if _is_outside(state):
            found[number] = after_backward
        else:
            after_backward = state.phase is Phase.BACKWARD
    for number in reversed(range(len(states))):
        if _is_outside(states[number]):
            found[number] &= before_step
        else:
            before_step = states[number].phase is Phase.OPTIMIZER
    return found


def _is_outside(state: State) -> bool:
    return state.phase is Phase.FORWARD and state.module is None and state.root_call is None
