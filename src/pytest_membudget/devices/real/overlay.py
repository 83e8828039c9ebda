"""Joins the records of a run with the allocator's history of it, into a ledger."""

from collections.abc import Sequence

from ... import components
from ...allocator.block_map import UNDOING, Start, start_of
from ...allocator.history import ACTIVE_ALLOCATED, DeviceHistory, HistoryEvent
from ...tracking.cached import UNKNOWN
from ...tracking.ledger import Ledger
from ...tracking.record import Phase, Record
from .origins import Origin, Origins
from .run_log import Seen, State, state_in


def overlay(history: DeviceHistory, seen: Seen, origins: Origins, ledger: Ledger) -> None:
    """Play a run's ``history`` into ``ledger``, which is empty, from its first event on.

    An event's metadata is the number of its state; without one it is of a thread outside any module. A block
    from before the first event is ``unattributed``.
    """
    played = _Played(ledger, seen, origins, start_of(history))
    for number, event in enumerate(history.events):
        played.play(number, event)
    played.see(len(seen.states))
    played.end_call()


class _Played:
    def __init__(self, ledger: Ledger, seen: Seen, origins: Origins, start: Start) -> None:
        self.ledger = ledger
        self._memory = start.memory
        self._seen = seen
        self._for_update = _states_for_update(seen.states)
        self._next = 0
        self._origins = origins
        self._state = 0
        #: the operator's call that allocates, and its copies, with its name and whether they may be inputs
        self._call: tuple[object, ...] = ()
        self._copies: list[tuple[Record, str, bool]] = []
        #: whether nothing of the model has run since the last backward: new tensors are then a batch
        self._before_model = True
        for address, size_bytes in start.reserved:
            ledger.reserve(address, size_bytes)
        ledger.segments.asked_by(UNKNOWN)
        for block in start.blocks:
            if block.state == ACTIVE_ALLOCATED:
                record = Record(block.requested_bytes, "", Phase.FORWARD, block.size_bytes)
                record.role, record.address = components.UNATTRIBUTED, block.address
                ledger.born(block.address, record)

    def play(self, number: int, event: HistoryEvent) -> None:
        """Apply one event of the history, after the sightings before it."""
        state = state_in(event.text)
        is_known = state is not None and state < len(self._seen.states)
        if state is not None and is_known:
            self._move_to(state)
        action, address = event.action, event.address
        if action == "alloc":
            self._born(number, event, is_known)
        elif action == "free_requested":
            if address in self.ledger.live:
                self.ledger.died(address)
        elif action == "free_completed":
            self._memory.free(address)
        elif action in UNDOING:
            self.ledger.reserve(address, self._memory.change(action, address, event.size_bytes))

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
        origin = self._origins.of(event.frames)
        state = self._state_of(origin)
        if not is_known and state.phase is Phase.FORWARD:
            state = State(Phase.FORWARD)
        if origin.call != self._call:
            self.end_call()
            self._call = origin.call
        record = Record(event.size_bytes, origin.operator, state.phase)
        record.event = number
        record.module = self._seen.path_in(state.module, origin.module)
        record.root_call = state.root_call
        if state.phase is Phase.FORWARD and state.module is None:
            record.for_update = bool(self._for_update[self._state]) and not origin.makes_new_values
            from_inputs = origin.makes_new_values or self._prepares_inputs()
            record.from_inputs = from_inputs and not origin.copied_for
            if origin.copied_for:
                self._copies.append((record, origin.copied_for, from_inputs))
        if origin.is_workspace:
            record.role = components.WORKSPACES
        line = origin.line or state.forward or state.line
        if line is not None:
            record.file, record.line = line
            record.caller = origin.caller
        recomputes = origin.recomputes or (state.phase is Phase.RECOMPUTE and state.root_call is not None)
        if (
            origin.line is not None
            and not origin.is_workspace
            and (recomputes or state.phase is Phase.FORWARD)
        ):
            module = record.module if state.root_call is not None or not recomputes else None
            self.ledger.runs[recomputes, module, origin.line, record.operator] += 1
        record.address, record.block_bytes = event.address, self._block_bytes(event)
        self.ledger.born(event.address, record)

    def _state_of(self, origin: Origin) -> State:
        """The state of what allocates now.

        A hook of a backward's tensors, as FSDP2's, may run in its thread before one that we set has. After a
        recomputation, which has lines, the node goes on that had asked for its tensors.
        """
        states = self._seen.states
        state = states[self._state]
        if state.phase is Phase.RECOMPUTE and origin.in_backward and origin.line is None:
            earlier = (states[number] for number in range(self._state - 1, -1, -1))
            return next((one for one in earlier if one.phase is Phase.BACKWARD), state)
        if state.phase is not Phase.FORWARD or not origin.in_backward:
            return state
        following = (states[number] for number in range(self._state + 1, len(states)))
        return next((one for one in following if one.phase is Phase.BACKWARD), state)._replace(module=None)

    def end_call(self) -> None:
        """A call of an operator has ended: copies that are gone were its own, the others are its result."""
        for record, operator, from_inputs in self._copies:
            if record.death is None:
                record.from_inputs = from_inputs
            else:
                record.operator = operator
        self._copies.clear()

    def _block_bytes(self, event: HistoryEvent) -> int:
        if self._memory.free_end(event.address) is None:
            resized = self._memory.begin_free_at(event.address)
            if resized is not None:
                self.ledger.resize(*resized)
        return self._memory.allocate(event.address, event.size_bytes)

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
