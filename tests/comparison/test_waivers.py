"""Which waiver a test has, and which waivers are not needed."""

import datetime

from pytest_membudget.budgets.settings import Waiver
from pytest_membudget.comparison.comparing import Comparing, unused_waivers, waiver_for
from pytest_membudget.results.comparison import Comparison
from pytest_membudget.results.test_result import TestResult

DAY = datetime.date(2026, 12, 31)


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
        TestResult(name, "a.py", 1, "within", "", comparison=Comparison(status) if status else None)
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


def test_one_whose_test_takes_more_is_not_unused_and_the_failure_says_by_how_much(row):
    waivers = (Waiver("*::test_a", 1, "x", DAY),)
    comparing = Comparing(None, waivers)

    for gib, reason in ((3, "as it is; 2.00 GiB above the ceiling of its waiver, 1 GiB"), (1, "as it is")):
        found = comparing.compare(row(gib * 2**30, verdict="over"))
        assert found.reason == reason
        assert not unused_waivers(waivers, [found], DAY, is_whole=True)


def test_a_subset_says_nothing_of_tests_that_it_has_not_run():
    assert not unused_waivers([of("z")], rows(a=None), DAY, is_whole=False)
    [found] = unused_waivers([of("z")], rows(a=None), DAY, is_whole=True)
    assert found.reason.startswith("there is no such test")
