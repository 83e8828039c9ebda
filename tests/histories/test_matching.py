"""Which requests of two histories are the same: file and line first, then the function, then the size."""

from dataclasses import replace

import pytest

from pytest_membudget.commands.histories import comparison_lines
from pytest_membudget.errors import UsageMistake
from pytest_membudget.histories.comparison import (
    BY_FUNCTION,
    BY_SIZE,
    Allocation,
    Match,
    matched,
    sides,
)
from pytest_membudget.histories.reading import window_from
from tests.histories.test_comparison import LINE, MIB, snapshot

HERE = Allocation("m/model.py:5", 20, "m/model.py forward")
MOVED = Allocation("m/model.py:9", 20, "m/model.py forward")
ELSEWHERE = Allocation("m/loss.py:3", 20, "m/loss.py loss")
LARGER = Allocation("m/loss.py:3", 30, "m/loss.py loss")


def test_the_line_comes_before_the_order_and_the_size():
    """Both have a request of 20 bytes at line 5; that another of 20 bytes comes first changes nothing."""
    found = matched({ELSEWHERE: 1, HERE: 1}, {HERE: 1, MOVED: 1})

    assert found == ([Match(ELSEWHERE, MOVED, 1, BY_SIZE)], {}, {})


def test_the_function_comes_before_the_size():
    found, _, _ = matched(
        {ELSEWHERE: 1, HERE: 1}, {MOVED: 1, Allocation("m/other.py:1", 20, "m/other.py f"): 1}
    )

    assert [(match.first, match.how) for match in found] == [
        (HERE, BY_FUNCTION),
        (ELSEWHERE, BY_SIZE),
    ]


def test_what_is_of_no_size_of_the_other_is_left():
    found = matched({HERE: 3, LARGER: 1}, {MOVED: 2})

    assert found == ([Match(HERE, MOVED, 2, BY_FUNCTION)], {HERE: 1, LARGER: 1}, {})


def test_the_text_says_what_was_matched_by_size_alone():
    other = [{"filename": "/r/m/loss.py", "line": 3, "name": "loss"}]
    moved = [{"filename": "/r/m/model.py", "line": 9, "name": "forward"}]
    first = snapshot((20, LINE, False), (30, other, False))
    second = snapshot((20, moved, False), (30, LINE, False))

    lines = list(comparison_lines(*sides(first, second)))

    by_function = "  equal by function: 20,971,520 B x1, recorded m/model.py:5, estimated m/model.py:9"
    assert by_function in lines
    assert "  equal by size: 31,457,280 B x1, recorded m/loss.py:3, estimated m/model.py:5" in lines
    assert "Asked for: the same in both." in lines


# A window


def test_a_window_begins_with_an_event():
    """Events 0 and 1 are those of the first request, of 20 MiB."""
    whole = snapshot((20, LINE, False), (30, LINE, False))

    window = window_from(whole, "2", "a.pickle")

    side, _ = sides(window, window)
    assert side.requests == {Allocation("m/model.py:5", 30 * MIB): 1}


def test_a_window_begins_with_a_text_of_the_users():
    whole = snapshot((20, LINE, False), (30, LINE, False))
    events = (*whole.events[:2], *(event._replace(text="step 1") for event in whole.events[2:]))

    assert window_from(replace(whole, events=events), "step 1", "a.pickle").events == events[2:]


@pytest.mark.parametrize("start", ["4", "step 2"])
def test_an_event_that_is_not_there_is_refused(start):
    whole = snapshot((20, LINE, False), (30, LINE, False))

    with pytest.raises(UsageMistake, match=f"a.pickle has no event '{start}': write a number from 0 to 3"):
        window_from(whole, start, "a.pickle")
