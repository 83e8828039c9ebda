"""The binary search over points that are good, bad or cannot be tried."""

import math

import pytest

from pytest_membudget.commands.bisect import first_bad


def searched(states):
    """What is found in ``states``, a letter each, and which points were tried."""
    tried = []

    def state_of(number):
        tried.append(number)
        return {"g": "good", "b": "bad", "s": "skip"}[states[number]]

    return first_bad(len(states), state_of), tried


@pytest.mark.parametrize("step", range(1, 20))
def test_the_first_bad_point_is_found_in_as_many_tries_as_halving_takes(step):
    found, tried = searched("g" * step + "b" * (20 - step))

    assert found == (step - 1, step)
    assert len(tried) <= math.ceil(math.log2(19))


def test_two_points_need_no_try():
    assert searched("gb") == ((0, 1), [])


@pytest.mark.parametrize("states", ["ggsbb", "gsgsb", "gsssbsb", "gbsssb", "gssssb"])
def test_a_point_that_is_skipped_is_neither_good_nor_bad(states):
    (good, bad), tried = searched(states)

    assert states[good] == "g"
    assert states[bad] == "b"
    assert set(states[good + 1 : bad]) <= {"s"}
    assert len(tried) == len(set(tried))


def test_where_figures_go_up_and_down_the_result_is_a_step_up():
    states = "gbgggbgb"
    (good, bad), _ = searched(states)

    assert (states[good], states[bad], bad - good) == ("g", "b", 1)
