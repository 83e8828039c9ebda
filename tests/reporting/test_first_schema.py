"""A report of version 1 is read as one of version 2 that says the same."""

import pytest

from pytest_membudget.json_object import Misfit
from pytest_membudget.reporting.document import checked_document

GIB = 2**30


@pytest.mark.parametrize(
    ("status", "growth_bytes", "state", "allowed"),
    [
        ("new-over", GIB, "grown", None),
        ("new-over", 0, "unchanged", None),
        ("still-over", 0, "unchanged", True),
        ("waived", GIB, "grown", True),
        ("expired-waiver", GIB, "grown", False),
        ("grown", GIB, "grown", False),
        ("unchanged", GIB, "grown", None),
        ("unchanged", 0, "unchanged", None),
        ("not-comparable", 0, "not comparable", None),
        ("shrunk", -GIB, "shrunk", None),
    ],
)
def test_statuses_are_states_and_what_is_allowed(raw, over, comparison, status, growth_bytes, state, allowed):
    known = comparison(status=status, growth_bytes=growth_bytes)
    del known["allowed"]

    [row] = checked_document(raw(over(comparison=known), schema_version=1)).tests

    assert (row.comparison.status, row.comparison.allowed) == (state, allowed)
    assert row.exceeds is (allowed is not True)


def test_a_new_test_over_its_budget_is_new(raw, over):
    known = {"status": "new-over", "reason": "the base does not have this test", "growth_bytes": 0}

    [row] = checked_document(raw(over(comparison=known), schema_version=1)).tests

    assert (row.comparison.status, row.exceeds) == ("new", True)


@pytest.mark.parametrize(
    ("status", "state", "recorded"),
    [("kept", "unchanged", False), ("recorded", "new", True), ("grown", "grown", False)],
)
def test_the_lock_files_statuses_are_the_same_states(raw, row, status, state, recorded):
    lock = {"status": status, "reason": "", "entry": None}

    [found] = checked_document(raw(row(lock=lock), schema_version=1)).tests

    assert (found.lock.status, found.lock.recorded) == (state, recorded)


def test_the_kinds_of_caveats_are_their_causes(raw, row, figure):
    old = figure({"caveats": [{"kind": "library", "level": "unchecked", "text": "cufftPlan"}]})

    [found] = checked_document(raw(row(estimates=[old]), schema_version=1)).tests

    assert [(one.kind, one.cause.name) for one in found.caveats] == [("missing", "library")]


@pytest.mark.parametrize("broken", [{"tests": 3}, {"tests": [3]}, {"tests": [{"estimates": 3, "lock": []}]}])
def test_what_is_no_report_is_refused_as_ever(raw, broken):
    with pytest.raises(Misfit, match="tests"):
        checked_document({**raw(schema_version=1), **broken})
