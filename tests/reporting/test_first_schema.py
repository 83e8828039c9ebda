"""A report of version 1 is read as one of version 2 that says the same."""

import pytest

from pytest_membudget.json_object import Misfit
from pytest_membudget.reporting.document import checked_document
from pytest_membudget.results.comparison import RunDifference, VersionChange

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
def test_statuses_are_states_and_what_is_allowed(raw, over, status, growth_bytes, state, allowed):
    known = {
        "status": status,
        "base_bytes": 4 * GIB - growth_bytes,
        "head_bytes": 4 * GIB,
        "growth_bytes": growth_bytes,
    }

    [row] = checked_document(raw(over(comparison=known), schema_version=1)).tests

    assert (row.comparison.status, row.comparison.allowed) == (state, allowed)
    assert row.growth_bytes == growth_bytes
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


def test_keys_that_are_elsewhere_now_are_found(raw, row, figure):
    versions = [{"name": "torch", "base": "2.12.0", "head": "2.13.0"}]
    moved = {"head": "backward", "base": "forward", "compared": "forward", "head_bytes": 2, "base_bytes": 1}
    known = {
        "status": "grown",
        "base_bytes": 3,
        "head_bytes": 4,
        "growth_bytes": 1,
        "base_components": {"inputs": 3},
        "base_timeline": {"moments": [0], "components": {"inputs": [3]}, "peak_moment": 0},
        "input_factor": 1.5,
        "activation_factor": None,
        "moved_peak": moved,
        "findings": [{"bytes": 1, "component": "inputs", "base_location": "a.py:1", "lines": 2}],
        "distributions": versions,
    }
    peak = {f"{name}_bytes": size for name, size in figure()["peak"].items()}
    phase = {"phase": "backward", "peak_bytes": 8, "components": {"inputs": 8}, "holders": []}
    changes = {"variants": [{"ends": "traced", "peak_bytes": 7}], "peak": peak, "other_phases": [phase]}
    other = figure({**changes, "holders.0.each_bytes": 3 * GIB // 2})
    trials = [{"change": "fused", "write": "fused=True", "bytes": 8}]
    advice = {"figure_bytes": 9, "limit_bytes": 1, "trials": trials, "untried": ["checkpointing"]}
    lock = {"status": "kept", "reason": "", "entry": {"bytes": 3}}
    place = {"file": "tests/test_a.py", "line": 7, "measured_on": "H100"}
    old = raw(
        row(comparison=known, advice=advice, estimates=[other], measurements=[figure()], lock=lock, **place),
        comparison={"base": {"ref": "main", "commit": "1" * 40}, "distributions": versions},
        schema_version=1,
        tool={"version": "0.0.9", "testing": False},
        torch={"version": "2.13.0", "cuda": "13.0", "alloc_conf": "expandable_segments:True"},
        git={"head": "0" * 40, "dirty": True},
    )

    read = checked_document(old)

    assert (read.torch, read.alloc_conf) == ("2.13.0", "expandable_segments:True")
    assert (read.git.commit, read.git.dirty) == ("0" * 40, True)
    assert (read.comparison.base, read.comparison.commit) == ("main", "1" * 40)
    assert read.comparison.distributions == {"torch": VersionChange("2.12.0", "2.13.0")}
    [found] = read.tests
    assert (found.location, found.lock.base.bytes) == ("tests/test_a.py:7", 3)
    assert (found.advice.bytes, found.advice.trials) == (9, {"fused=True": 8, "checkpointing": None})
    [estimate] = found.estimates
    assert (estimate.variants, estimate.peak_bytes, estimate.phases[0].bytes) == ((7,), 4 * GIB, 8)
    assert estimate.holders[0].largest_bytes == 3 * GIB // 2
    assert found.measurements[0].device == "H100"
    since = found.comparison
    assert [(one.base, one.count) for one in since.findings] == [("a.py:1", 2)]
    assert since.distributions == read.comparison.distributions
    assert (since.bytes, since.base.bytes, since.growth_bytes) == (4, 3, 1)
    assert (since.base.components, since.base.timeline.moments) == ({"inputs": 3}, (0,))
    assert since.differences == (
        RunDifference("inputs", "1.5 times as large"),
        RunDifference("peak", "backward", "forward"),
        RunDifference("compared", "2 B", "1 B", ("forward",)),
    )


def test_figures_that_a_test_has_given_are_refused_as_ever(raw):
    with pytest.raises(Misfit, match="testing: must be false"):
        checked_document(raw(schema_version=1, tool={"version": "0.0.9", "testing": True}))


@pytest.mark.parametrize("broken", [{"tests": 3}, {"tests": [3]}, {"tests": [{"estimates": 3, "lock": []}]}])
def test_what_is_no_report_is_refused_as_ever(raw, broken):
    with pytest.raises(Misfit, match="tests"):
        checked_document({**raw(schema_version=1), **broken})
