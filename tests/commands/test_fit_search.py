"""The search for the largest value that fits, and the conclusion from the values that were tried."""

import pytest

from pytest_membudget.commands.fit_search import FAILS, FITS, TOO_LARGE, Tried, conclusion, next_values


def searched(outcome_of, step=1, most=1000):
    """The conclusion of a search, how many sessions it takes, and the values tried."""
    tried, sessions = {}, 0
    while values := next_values(tried, step, most):
        sessions += 1
        assert not set(values) & set(tried)
        tried.update({value: Tried(value, outcome_of(value)) for value in values})
    return conclusion(tried), sessions, tried


def below(limit, beyond=TOO_LARGE):
    return lambda value: FITS if value <= limit else beyond


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 63, 64, 100, 999])
def test_the_largest_value_is_exact_and_the_next_one_was_tried(limit):
    found, sessions, tried = searched(below(limit))

    assert (found.largest, found.limit.value, found.gaps) == (limit, limit + 1, ())
    assert {limit - 1, limit, limit + 1} - {0} <= set(tried)
    assert sessions <= 9


def test_no_value_above_the_most_is_tried():
    found, _, tried = searched(below(5000), most=48)

    assert (found.largest, found.limit) == (48, None)
    assert max(tried) == 48


def test_where_the_first_value_is_too_large_none_fits():
    found, _, _ = searched(below(0))

    assert (found.largest, found.limit.value) == (None, 1)


def test_multiples_of_a_step_alone_are_tried():
    found, _, tried = searched(below(1000), step=128, most=4096)

    assert (found.largest, found.limit.value) == (896, 1024)
    assert all(value % 128 == 0 for value in tried)


def test_a_value_above_the_limit_that_fits_goes_on_with_the_search_and_the_gap_is_said():
    found, _, _ = searched(lambda value: FITS if value <= 12 or value == 14 else TOO_LARGE, most=16)

    assert (found.largest, found.limit.value, found.gaps) == (14, 15, (13,))


def test_a_failure_for_another_reason_is_not_taken_for_too_large():
    found, _, _ = searched(below(6, beyond=FAILS))

    assert (found.largest, found.limit.value, found.limit.outcome) == (6, 7, FAILS)
