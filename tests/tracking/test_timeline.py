"""Memory over a run: the points are few, true at their moments, and have the peak.

Expected bytes are the sizes that the stories give their storages, added up by hand.
"""

import random

import pytest

from pytest_membudget import components
from pytest_membudget.tracking.ledger import Ledger
from pytest_membudget.tracking.record import Phase, Record
from pytest_membudget.tracking.summary import memory_report
from pytest_membudget.tracking.timeline import MOST_POINTS, Lives

ROLES = [components.PARAMETERS, components.GRADIENTS, components.ACTIVATIONS, components.WORKSPACES]


class Story:
    """A run as the ledger sees it, and what was held after each of its moments."""

    def __init__(self):
        self.ledger = Ledger()
        self.lives = Lives(self.ledger)
        self.history = [{}]

    def born(self, size_bytes, role, phase=Phase.FORWARD):
        record = Record(size_bytes, "aten::empty", phase, size_bytes)
        self.ledger.reserve(len(self.history) * 2**40, size_bytes)
        record.role, record.trained = role, True
        self.ledger.born(id(record), record)
        self._note()
        return record

    def died(self, record):
        self.ledger.died(id(record))
        self._note()

    def mark(self):
        self.ledger.mark()
        self._note()

    def timeline(self, metric="allocated"):
        arguments = {"metric": metric, "context_bytes": 0, "root": "/", "lives": self.lives}
        self.report = memory_report(self.ledger, **arguments)
        return self.report.timeline

    def _note(self):
        held = {}
        for record in self.ledger.live.values():
            name = self.ledger.component_of(record)
            held[name] = held.get(name, 0) + record.requested_bytes
        self.history.append(held)


def at(timeline, point):
    return {name: sizes[point] for name, sizes in timeline.components.items() if sizes[point]}


@pytest.fixture
def story():
    return Story()


@pytest.fixture
def long_story(story):
    rng = random.Random(7)
    weights = [story.born(10_000_000, components.PARAMETERS) for _ in range(20)]
    held = []
    for step in range(3_000):
        if step % 1_000 == 500:
            story.mark()
        if held and rng.random() < 0.49:
            story.died(held.pop(rng.randrange(len(held))))
        else:
            held.append(story.born(rng.choice([1_000, 300_000, 4_000_000]), rng.choice(ROLES)))
    story.weights = weights
    return story


def test_a_short_run_has_every_moment(story):
    weight = story.born(1000, components.PARAMETERS)
    kept = story.born(300, components.ACTIVATIONS)
    story.died(kept)
    story.died(weight)

    timeline = story.timeline()

    assert timeline.moments == (0, 1, 2, 3, 4)
    assert timeline.components == {"parameters": (0, 1000, 1000, 1000, 0), "activations": (0, 0, 300, 0, 0)}
    assert timeline.peak_moment == 2


def test_nothing_allocated_has_no_timeline(story):
    assert story.timeline() is None


def test_a_long_run_has_few_points(long_story):
    moments = long_story.timeline().moments
    assert MOST_POINTS / 2 < len(moments) <= MOST_POINTS
    assert list(moments) == sorted(set(moments))
    assert moments[0] == 0
    assert moments[-1] == long_story.ledger.now


@pytest.mark.parametrize("metric", ["allocated", "reserved"])
def test_the_peak_is_there_to_the_byte(long_story, metric):
    timeline = long_story.timeline(metric)
    peak = timeline.moments.index(timeline.peak_moment)
    assert at(timeline, peak) == long_story.history[timeline.peak_moment]
    assert at(timeline, peak) == {
        name: size
        for name, size in long_story.report.components.items()
        if size and name in components.TENSOR_COMPONENTS
    }


def test_every_point_is_what_was_held_at_one_moment_the_fullest_of_its_stretch(long_story):
    timeline = long_story.timeline()
    ends = [*timeline.moments[1:], len(long_story.history)]
    for point, (start, end) in enumerate(zip(timeline.moments, ends, strict=True)):
        stretch = long_story.history[start:end]
        assert at(timeline, point) in stretch
        if start != timeline.peak_moment:
            most = max(sum(held.values()) for held in stretch)
            assert sum(at(timeline, point).values()) == most


def test_phases_begin_where_their_first_storage_is_born(story):
    story.born(1000, components.PARAMETERS)
    story.born(500, components.ACTIVATIONS)
    story.born(500, components.GRADIENTS, Phase.BACKWARD)
    story.born(100, components.ACTIVATIONS, Phase.RECOMPUTE)
    story.died(story.born(100, components.GRADIENTS, Phase.BACKWARD))
    story.born(100, components.OPTIMIZER_STATES, Phase.OPTIMIZER)
    assert story.timeline().phases == ((1, "forward"), (3, "backward"), (7, "optimizer"))


def test_phases_that_change_all_the_time_are_left_out(story):
    for _ in range(50):
        story.born(10, components.GRADIENTS, Phase.BACKWARD)
        story.born(10, components.OPTIMIZER_STATES, Phase.OPTIMIZER)
    assert story.timeline().phases == ()


def test_who_listened_for_deaths_before_still_does():
    ledger, heard = Ledger(), []
    ledger.on_death.append(heard.append)
    Lives(ledger)
    record = Record(512, "aten::empty", Phase.FORWARD)
    ledger.born(1, record)
    ledger.died(1)
    assert heard == [record]


def test_a_copy_is_what_its_parameter_is_in_the_end_though_it_has_died_before():
    """Its gradient is seen when the first backward ends: until then the parameter is a frozen one."""
    ledger = Ledger()
    lives = Lives(ledger)
    weight, copy = (Record(size, "", Phase.FORWARD, size) for size in (8, 4))
    weight.role, copy.computed_from = components.PARAMETERS, weight
    ledger.born(1, weight)
    ledger.born(2, copy)
    ledger.mark()
    ledger.died(2)
    ledger.end_backward()
    weight.note_trained()

    timeline = lives.timeline(2)

    at_peak = timeline.moments.index(2)
    assert {name: sizes[at_peak] for name, sizes in timeline.components.items()} == {"parameters": 12}
