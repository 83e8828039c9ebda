"""What is kept during a run makes few new objects: Python's garbage collector runs by their number."""

import gc

from pytest_membudget.devices.real.sightings import LateSightings, Sighting, State, StateLog
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
    sightings = LateSightings(lambda: 3, lambda tensor: 0)

    def note():
        for number in range(1000):
            sightings.note_root_call_end(number)

    assert objects_made(note) < 20
    sightings.note_mark()
    assert sightings.seen[999:] == [Sighting(3, "root call ended", number=999), Sighting(3, "mark")]


def test_states_that_come_again_are_one_object():
    told = []
    log = StateLog(told.append)

    def enter():
        for _ in range(500):
            log.enter(State(Phase.FORWARD, "layers.0"))
            log.enter(State(Phase.BACKWARD))

    assert objects_made(enter) < 20
    assert log.current == 1000
    assert told == [str(number) for number in range(1001)]
    assert log.states[1000] == State(Phase.BACKWARD)
