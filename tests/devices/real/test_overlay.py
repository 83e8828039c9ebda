"""What was seen during a run, laid over the allocator's history of it; histories short enough to follow.

Components of whole steps: ``tests/devices/stand_in/test_components.py``.
"""

import pytest

from pytest_membudget import components
from pytest_membudget.allocator.history import (
    ACTIVE_ALLOCATED,
    AllocatorSettings,
    BlockState,
    DeviceHistory,
    HistoryEvent,
    SegmentState,
)
from pytest_membudget.devices.real.origins import Origins
from pytest_membudget.devices.real.overlay import overlay
from pytest_membudget.devices.real.run_log import RunLog, Seen, Sighting, State
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.record import Phase, Record

MIB = 2**20
OUTSIDE, INSIDE = State(Phase.FORWARD), State(Phase.FORWARD, "layers.0", 1)
BACKWARD, RECOMPUTE = State(Phase.BACKWARD), State(Phase.RECOMPUTE, "layers.0", 2)
OPTIMIZER = State(Phase.OPTIMIZER)
LINE = [{"filename": "/r/model.py", "line": 5, "name": "forward"}]


def born(address, state, mib=20, frames=LINE):
    """A request in a segment of its own."""
    return [
        HistoryEvent("segment_alloc", address * 1024 * MIB, mib * MIB, frames=frames),
        HistoryEvent("alloc", address * 1024 * MIB, mib * MIB, text=str(state), frames=frames),
    ]


def died(address, mib=20):
    actions = ("free_requested", "free_completed")
    return [HistoryEvent(action, address * 1024 * MIB, mib * MIB, frames=LINE) for action in actions]


def seen(after, write, *args, at=()):
    return Sighting(after, write, tuple(address * 1024 * MIB for address in at), args)


def first_line(frames):
    return (frames[0]["filename"], frames[0]["line"]) if frames and frames[0]["line"] else None


def ledger(events, states, sightings=(), first_nodes=()):
    made = Ledger()
    overlay(
        DeviceHistory(tuple(events), segments_after(events), AllocatorSettings()),
        Seen(states, sightings, first_nodes),
        Origins(first_line),
        made,
    )
    return made


def segments_after(events):
    of = {event.address: event for event in events if event.action.startswith("segment_")}
    held = (event for event in of.values() if event.action == "segment_alloc")
    return tuple(SegmentState(one.address, one.size_bytes, False) for one in held)


def component_at(made, address):
    return made.component_of(made.live[address * 1024 * MIB])


def test_the_peak_is_that_of_the_history():
    made = ledger([*born(1, 0), *died(1), *born(2, 0, 64), *born(3, 0, 30), *died(3, 30)], [OUTSIDE])

    assert made.allocated_peak.allocated_bytes == 94 * MIB
    assert made.reserved_peak.reserved_bytes == (20 + 64 + 30) * MIB


def test_a_storage_has_the_module_and_line_of_its_birth():
    made = ledger(born(1, 1), [OUTSIDE, INSIDE])
    record = made.live[1024 * MIB]

    assert (record.module, record.file, record.line) == ("layers.0", "/r/model.py", 5)


def test_a_block_from_before_the_first_event_has_the_role_that_is_seen_of_it():
    """A long training loses its beginning, in which parameters and states were made."""
    address = 1024 * MIB
    held = SegmentState(
        address, 20 * MIB, False, (BlockState(address, 20 * MIB, 20 * MIB, ACTIVE_ALLOCATED),)
    )
    sightings = [seen(0, Record.note_role, components.OPTIMIZER_STATES, "weight.exp_avg", at=(1,))]
    made = Ledger()

    events = (*born(2, 0), *died(2))
    history = DeviceHistory(events, (held, *segments_after(events)), AllocatorSettings())
    overlay(history, Seen([OUTSIDE], sightings, ()), Origins(lambda frames: None), made)

    assert component_at(made, 1) == components.OPTIMIZER_STATES
    assert made.allocated_peak.allocated_bytes == 40 * MIB


def test_a_role_is_that_of_who_lay_at_the_address_when_it_was_seen():
    """The parameter's address serves an activation later."""
    events = [*born(1, 0), *died(1), *born(1, 1)]
    sightings = [seen(0, Record.note_role, components.PARAMETERS, "weight", at=(1,))]

    made = ledger([*born(1, 0), *born(2, 1)], [OUTSIDE, INSIDE], sightings)
    assert component_at(made, 1) == components.PARAMETERS
    again = ledger(events, [OUTSIDE, INSIDE], [seen(1, Record.note_role, components.PARAMETERS, at=(1,))])
    assert again.live[1024 * MIB].role == components.PARAMETERS
    before = ledger(events, [OUTSIDE, INSIDE], [*sightings, seen(0, Ledger.mark)])
    assert before.live[1024 * MIB].role is None


def test_what_is_made_before_the_model_runs_is_an_input_and_what_is_made_after_is_not():
    states = [OUTSIDE, INSIDE, OUTSIDE, BACKWARD, OPTIMIZER, OUTSIDE]
    sightings = [seen(1, Ledger.end_root_call, 1)]

    made = ledger([*born(1, 0), *born(2, 1), *born(3, 2), *born(4, 4), *born(5, 5)], states, sightings)

    assert [made.live[n * 1024 * MIB].from_inputs for n in (1, 2, 3, 4, 5)] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_what_a_function_makes_where_autograd_records_it_is_no_input():
    """The third state's batch is made without a graph, before the next function."""
    events = [*born(1, 0), *born(2, 1), *born(3, 2)]

    made = ledger(events, [OUTSIDE] * 4, first_nodes=[7, 7, 9, 9])

    assert [made.live[n * 1024 * MIB].from_inputs for n in (1, 2, 3)] == [True, False, True]


def test_what_is_made_between_a_backward_and_the_step_is_for_the_step():
    states = [OUTSIDE, INSIDE, BACKWARD, OUTSIDE, OPTIMIZER, OUTSIDE]
    factory = [
        {"filename": "??", "line": 0, "name": "at::_ops::randn::call()"},
        *LINE,
    ]
    events = [*born(1, 3), *born(2, 3, frames=factory), *born(3, 5)]

    made = ledger(events, states, [seen(5, Ledger.mark)])

    assert [component_at(made, n) for n in (1, 2, 3)] == [
        components.TEMPORARIES,
        components.INPUTS,
        components.INPUTS,
    ]


def test_a_micro_batch_made_after_another_ones_backward_is_an_input():
    states = [OUTSIDE, INSIDE, BACKWARD, OUTSIDE, INSIDE, BACKWARD, OPTIMIZER]

    assert component_at(ledger(born(1, 3), states), 1) == components.INPUTS


def test_a_gradient_of_a_checkpoints_copy_of_its_input_is_none():
    sightings = [seen(1, Record.note_gradient, None, False, at=(2, 1))]

    made = ledger([*born(1, 1), *born(2, 1)], [OUTSIDE, RECOMPUTE, BACKWARD], sightings)

    assert made.live[2048 * MIB].role is None


def test_what_a_hook_allocates_before_a_backward_is_entered_is_of_that_backward():
    """FSDP2's hook of the loss runs in the engine's thread, which has another backward's number, or none."""
    engine = [{"filename": "??", "line": 0, "name": "torch::autograd::Engine::thread_main(std::shared_ptr)"}]
    loss = State(Phase.BACKWARD, line=("/r/train.py", 9))
    late = [*born(2, "", frames=engine)]

    made = ledger([*born(1, 1), *late, *born(3, 2)], [OUTSIDE, INSIDE, loss])
    record = made.live[2 * 1024 * MIB]

    assert (record.phase, record.file, record.line) == (Phase.BACKWARD, "/r/train.py", 9)
    assert (record.role, record.module) == (None, None)


@pytest.mark.parametrize("text", ["", "epoch 7"])
def test_what_a_thread_takes_without_a_state_is_of_no_module(text):
    """A loader's thread copies a batch while a module runs in another."""
    frames = [
        {"filename": "??", "line": 0, "name": "at::_ops::randn::call()"},
        *LINE,
    ]
    made = ledger([*born(1, 1), *born(2, text, frames=frames)], [OUTSIDE, INSIDE])

    assert made.live[2 * 1024 * MIB].module is None
    assert component_at(made, 2) == components.INPUTS


def test_memory_that_is_no_tensors_is_a_workspace():
    stack = ("CachingAllocator::allocate()", "at::cuda::getNewWorkspace()", "at::_ops::mm::call()")
    frames = [*({"filename": "??", "line": 0, "name": name} for name in stack), *LINE]

    assert component_at(ledger(born(1, 0, frames=frames), [OUTSIDE]), 1) == components.WORKSPACES


def test_memory_that_goes_back_to_the_device_is_no_longer_reserved():
    events = [*born(1, 0, 64), *died(1, 64), HistoryEvent("segment_free", 1024 * MIB, 64 * MIB)]

    made = ledger([*events, *born(2, 0, 30)], [OUTSIDE])

    assert made.reserved_bytes == 30 * MIB
    assert made.reserved_peak.reserved_bytes == 64 * MIB


def test_a_state_that_is_renewed_has_another_number():
    told = []
    log = RunLog(told.append)
    log.enter(INSIDE)
    log.renew()

    assert told == ["0", "1", "2"]
    assert log.states == [OUTSIDE, INSIDE, INSIDE]
