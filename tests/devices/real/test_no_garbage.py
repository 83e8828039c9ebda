"""What is kept during a run makes few new objects: Python's garbage collector runs by their number."""

import gc

from pytest_membudget.devices.real.run_log import RunLog, Sighting, State
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.record import Phase


def objects_made(work):
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        work()
        return gc.get_count()[0] - before
    finally:
        gc.enable()


def test_sightings_are_no_objects_until_they_are_asked_for():
    log = RunLog(lambda text: None)

    def note():
        for number in range(1000):
            log.note(Ledger.end_root_call, (), number)

    assert objects_made(note) < 20
    log.note(Ledger.mark, ())
    ends = [Sighting(0, Ledger.end_root_call, (), (999,)), Sighting(0, Ledger.mark)]
    assert log.seen().sightings[999:] == ends


def test_states_that_come_again_are_one_object():
    told = []
    log = RunLog(told.append)

    def enter():
        for _ in range(500):
            log.enter(State(Phase.FORWARD, "layers.0"))
            log.enter(State(Phase.BACKWARD))

    assert objects_made(enter) < 20
    assert told == [str(number) for number in range(1001)]
    assert log.states[1000] == State(Phase.BACKWARD)
