"""``pytest_membudget.assume``: what it takes, how blocks nest, and what it costs where nobody asks."""

import pytest

import pytest_membudget
from pytest_membudget import assume
from pytest_membudget.assumptions import assumed, assumed_value
from tests.programs import printed


def test_nothing_is_assumed_outside_a_block():
    with assume(true_fraction=0.5):
        assert assumed("true_fraction") == 0.5
    assert assumed("true_fraction") is None


def test_the_innermost_block_counts_argument_by_argument():
    with assume(true_fraction=0.5, bins=8):
        with assume(true_fraction=0.1):
            assert (assumed("true_fraction"), assumed("bins")) == (0.1, 8)
        assert assumed("true_fraction") == 0.5


def test_a_block_ends_where_its_code_raises():
    with pytest.raises(KeyError), assume(bins=8):
        raise KeyError
    assert assumed("bins") is None


def test_it_is_a_decorator_and_a_block_that_can_be_entered_again():
    block = assume(routing="balanced")

    @block
    def run(depth):
        return assumed("routing") if depth == 0 else run(depth - 1)

    assert run(2) == "balanced"
    with block, block:
        assert assumed("routing") == "balanced"
    assert assumed("routing") is None


def test_values_are_assumed_by_their_type():
    with assume(value=False), assume(value=3), assume(value=0.5):
        assert [assumed_value(kind) for kind in (bool, int, float)] == [False, 3, 0.5]
        with assume(value=4):
            assert assumed_value(int) == 4
    assert assumed_value(bool) is None


@pytest.mark.parametrize("given", [{"true_fraction": 0}, {"true_fraction": 1}, {"repeats": 0}, {"bins": 1}])
def test_ends_of_ranges_are_within(given):
    with assume(**given):
        assert assumed(next(iter(given))) == next(iter(given.values()))


@pytest.mark.parametrize(
    ("given", "error", "remedy"),
    [
        ({"true_fraction": 1.5}, ValueError, "a share between 0 and 1; write assume(true_fraction=0.15)"),
        ({"true_fraction": "10%"}, ValueError, "true_fraction='10%'"),
        ({"true_fraction": True}, TypeError, "true_fraction=True"),
        ({"distinct_fraction": float("nan")}, ValueError, "distinct_fraction=nan"),
        ({"repeats": -1}, ValueError, "a number from 0 up; write assume(repeats=2.0)"),
        ({"repeats": float("inf")}, ValueError, "repeats=inf"),
        ({"repeats": 10**400}, ValueError, "a number from 0 up"),
        ({"bins": 0}, ValueError, "a whole number from 1 up; write assume(bins=64)"),
        ({"bins": 2.5}, ValueError, "bins=2.5"),
        ({"bins": [2]}, TypeError, "bins=[2]"),
        ({"routing": "equal"}, ValueError, "write assume(routing='balanced')"),
        ({"routing": 0.5}, ValueError, "routing=0.5"),
        ({"value": "one"}, ValueError, "a bool, an int or a float; write assume(value=0.0)"),
        ({"value": None, "routing": None}, TypeError, "has no argument"),
        ({}, TypeError, "assume(true_fraction=0.15) or assume(routing='balanced')"),
        ({"count": 3}, TypeError, "count"),
    ],
)
def test_a_mistake_names_the_value_and_what_to_write(given, error, remedy):
    with pytest.raises(error) as raised:
        assume(**given)
    assert remedy in str(raised.value)


def test_it_is_public_and_imports_no_torch():
    code = "import sys, pytest_membudget\nwith pytest_membudget.assume(bins=3): print('torch' in sys.modules)"
    assert printed("-c", code) == "False\n"
    assert "assume" in pytest_membudget.__all__
