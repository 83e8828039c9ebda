"""Waivers as they are written: what is taken, what is refused, and which are not needed."""

import datetime

import pytest

from pytest_membudget.comparison.waivers import Waiver, read_waivers, unused_waivers, waiver_for
from pytest_membudget.errors import UsageMistake
from pytest_membudget.results.comparison import Comparison
from pytest_membudget.results.test_result import TestResult

DAY = datetime.date(2026, 12, 31)
GOOD = {"test": "test_a.py::test_a", "ceiling_gib": 44, "reason": "a new optimizer", "expires": DAY}


def test_an_entry_is_taken():
    assert read_waivers("p.toml", [GOOD]) == (Waiver("test_a.py::test_a", 44.0, "a new optimizer", DAY),)
    assert read_waivers("p.toml", None) == ()


def test_a_day_may_be_a_text():
    assert read_waivers("p.toml", [{**GOOD, "expires": "2026-12-31"}])[0].expires == DAY


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"test": ""}, "[0].test = '': write a node id"),
        ({"ceiling_gib": "44"}, "[0].ceiling_gib = '44': write a number of GiB above 0"),
        ({"ceiling_gib": True}, "[0].ceiling_gib = True: write a number"),
        ({"ceiling_gib": float("inf")}, "[0].ceiling_gib = inf: write a number"),
        ({"reason": " "}, "[0].reason = ' ': write why"),
        ({"expires": "soon"}, "[0].expires = 'soon': write a day, as in expires = 2026-12-31"),
        ({"expire": DAY}, "there is no key 'expire'; did you mean expires?"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_key(changes, said):
    with pytest.raises(UsageMistake) as refusal:
        read_waivers("p.toml", [{**GOOD, **changes}])
    assert str(refusal.value).startswith("p.toml: [tool.membudget] waivers[0]")
    assert said in str(refusal.value)


@pytest.mark.parametrize("key", GOOD)
def test_every_key_has_to_be_there(key):
    entry = {name: value for name, value in GOOD.items() if name != key}
    with pytest.raises(UsageMistake, match=rf"waivers\[0\]: {key} is missing"):
        read_waivers("p.toml", [entry])


@pytest.mark.parametrize("written", ["test_a", {"test": "x"}, 3])
def test_what_is_no_list_is_refused_with_an_example(written):
    with pytest.raises(UsageMistake, match=r"waivers = .*: write a list, as in waivers = \["):
        read_waivers("p.toml", written)


def of(test, expires=DAY):
    return Waiver(test, 1, "x", expires)


def test_a_pattern_covers_several_and_brackets_are_themselves():
    assert of("test_*.py::*").covers("test_a.py::test_b")
    assert of("test_a.py::test_b[x-*]").covers("test_a.py::test_b[x-1]")
    assert not of("test_a.py::test_b[xy]").covers("test_a.py::test_bx")


def test_the_plain_name_comes_before_a_pattern():
    named, pattern = of("test_a.py::test_a"), of("*", datetime.date(2030, 1, 1))
    assert waiver_for("test_a.py::test_a", [pattern, named]) is named
    assert waiver_for("test_a.py::test_b", [pattern, named]) is pattern
    assert waiver_for("test_a.py::test_b", [named]) is None


def rows(**statuses):
    return [
        TestResult(name, "a.py", 1, "over", "", comparison=Comparison(status) if status else None)
        for name, status in statuses.items()
    ]


def test_one_that_its_test_does_not_need_is_unused():
    found = unused_waivers(
        [of("a"), of("b"), of("c")], rows(a="waived", b=None, c="unchanged"), DAY, is_whole=True
    )
    assert [entry.test for entry in found] == ["b", "c"]
    assert found[0].reason.startswith("its test needs none")


def test_one_that_has_expired_and_made_its_test_fail_is_not_unused():
    assert not unused_waivers([of("a")], rows(a="expired-waiver"), DAY, is_whole=True)


def test_one_that_has_expired_and_is_not_needed_says_both():
    [found] = unused_waivers([of("a")], rows(a=None), datetime.date(2027, 1, 1), is_whole=True)
    assert found.reason.startswith("its test needs none; it expired on 2026-12-31")


def test_a_subset_says_nothing_of_tests_that_it_has_not_run():
    assert not unused_waivers([of("z")], rows(a=None), DAY, is_whole=False)
    [found] = unused_waivers([of("z")], rows(a=None), DAY, is_whole=True)
    assert found.reason.startswith("there is no such test")
