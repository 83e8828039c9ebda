"""A budget of growth that nothing was compared with, under ``--membudget-strict``."""

from dataclasses import replace

import pytest

from pytest_membudget.caveats import DEPENDS, THREAD, Caveat
from pytest_membudget.comparison.strictness import strictly
from pytest_membudget.results.comparison import Comparison

NEW = Comparison("new", "the base does not have this test")
OTHER_CARD = Comparison("not comparable", "of another card")
CARD_ALONE = {"gib": None, "gpu": "H100-80GB"}


@pytest.mark.parametrize(
    ("comparison", "budget", "verdict"),
    [
        (NEW, {"max_growth": "1%", **CARD_ALONE}, "error"),
        (NEW, {"max_growth": "1%"}, "within"),  # its gib was checked
        (NEW, CARD_ALONE, "within"),
        (OTHER_CARD, {"max_growth": "1%"}, "error"),
        (OTHER_CARD, {}, "within"),
        (Comparison("unchanged"), {"max_growth": "1%", **CARD_ALONE}, "within"),
    ],
)
def test_growth_that_was_not_compared_fails_unless_a_new_test_has_a_limit(row, comparison, budget, verdict):
    result = strictly(row(2**30, budget=budget, comparison=comparison))

    assert result.verdict == verdict
    if verdict == "error":
        assert f"max_growth was not compared: {comparison.reason}" in result.reason


def test_a_new_test_is_told_to_write_a_limit(row):
    result = strictly(row(2**30, budget={"max_growth": "1%", **CARD_ALONE}, comparison=NEW))

    assert "write gib=1 too" in result.details


def test_what_has_one_remedy_has_it_once(row):
    caveats = [Caveat(DEPENDS, "a line"), Caveat(THREAD, "a thread"), Caveat(DEPENDS, "another")]
    result = row(2**30)
    result = replace(result, estimates=(replace(result.estimates[0], caveats=tuple(caveats)),))

    _, *lines, _ = strictly(result).details.splitlines()
    assert lines == [
        "  a line", "  another", f"    {DEPENDS.remedy}", "  a thread", f"    {THREAD.remedy}"
    ]  # fmt: skip


def test_what_several_lines_may_lead_to_is_said_once_above_them(row):
    outcome = "with other answers the test has no figure: it raised"
    caveats = [Caveat(DEPENDS, f"{line}; {outcome}") for line in ("a.py:1 reads", "a.py:2 reads")]
    result = row(2**30)
    result = replace(result, estimates=(replace(result.estimates[0], caveats=tuple(caveats)),))

    _, *lines, _ = strictly(result).details.splitlines()
    above = "with other answers to the 2 that follow the test has no figure: it raised"
    assert lines == [f"  {above}", "  a.py:1 reads", "  a.py:2 reads", f"    {DEPENDS.remedy}"]
