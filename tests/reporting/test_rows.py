"""Rows: which of them fail, and which of a row's figures count."""

import pytest

from pytest_membudget.reporting.rows import (
    add_measurement,
    exceeds,
    make_row,
    own_estimates,
    ratio_of,
    reason_of,
    worst_estimate,
)


def figure(size_bytes, kind="traced", rank=0):
    return {"kind": kind, "rank": rank, "metric": "allocated", "peak": {"allocated_bytes": size_bytes}}


def row(verdict="within", *, status=None, **more):
    made = make_row(
        nodeid="a::b", file="a", line=1, budget=None, limit_bytes=None, verdict=verdict, reason="why", **more
    )
    made["comparison"] = {"status": status, "reason": "grew"} if status is not None else None
    return made


@pytest.mark.parametrize(
    ("verdict", "status", "fails"),
    [
        ("over", None, True),
        ("over", "new-over", True),
        ("over", "grown", True),
        ("over", "expired-waiver", True),
        ("over", "not-comparable", True),
        ("over", "still-over", False),
        ("over", "waived", False),
        ("within", None, False),
        ("within", "grown", True),
        ("within", "expired-waiver", True),
        ("within", "unchanged", False),
        ("within", "shrunk", False),
        ("error", None, False),  # that is another failure
        ("skipped", "grown", False),
    ],
)
def test_who_takes_more_than_it_may(verdict, status, fails):
    assert exceeds(row(verdict, status=status)) is fails


def test_growth_is_the_reason_where_it_is_why_a_test_fails():
    assert reason_of(row(status="grown")) == "grown: grew"
    assert reason_of(row(status="expired-waiver")) == "waiver expired: grew"
    assert reason_of(row(status="shrunk")) == reason_of(row()) == "why"


def test_a_measured_verdict_is_the_rows_where_it_is_another():
    measured = row(estimates=[figure(1)])
    add_measurement(measured, "over", "1 B over", "", [figure(3, "measured", rank=2)], rank=2)

    assert (measured["verdict"], measured["reason"]) == ("over", "measured on CUDA: 1 B over")
    assert (measured["rank"], ratio_of(measured)) == (2, 1 / 3)


def test_the_same_verdict_keeps_the_estimates_reason():
    measured = row(estimates=[figure(1)])
    add_measurement(measured, "within", "50% of it", "", [figure(2, "measured")])

    assert (measured["verdict"], measured["reason"]) == ("within", "why")
    assert measured["measurements"] == [figure(2, "measured")]


def test_the_worst_estimate_is_of_the_tests_own_and_of_no_scenario():
    both = row(estimates=[figure(1), figure(2, rank=1), figure(9, "analytic")])

    assert own_estimates(both) == [figure(1), figure(2, rank=1)]
    assert worst_estimate(both) == figure(2, rank=1)
