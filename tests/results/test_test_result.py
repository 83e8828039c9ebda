"""TestResult: which results fail, which of the figures count, and the same value back from JSON."""

import json
from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.caveats import CONVOLUTION, HOST_DEPENDS, LIBRARY, READ, Caveat
from pytest_membudget.memory_report import Holder, MemoryReport, Timeline
from pytest_membudget.results.comparison import (
    BaseFigure,
    Comparison,
    Finding,
    RunDifference,
    VersionChange,
    versions_text,
)
from pytest_membudget.results.test_result import TestResult, with_comparison, with_measurement


def figure(size_bytes, kind="traced", rank=0):
    return MemoryReport(kind, "allocated", {"allocated": size_bytes}, {}, rank=rank)


def result(verdict="within", *, status=None, allowed=None, **more):
    comparison = Comparison(status, "grew", allowed) if status is not None else None
    return TestResult("a::b", "a:1", verdict, "why", comparison=comparison, **more)


@pytest.mark.parametrize(
    ("verdict", "allowed", "fails"),
    [
        ("over", None, True),
        ("over", False, True),
        ("over", True, False),
        ("within", None, False),
        ("within", False, True),
        ("within", True, False),
        ("undecided", False, True),
        ("error", False, False),  # that is another failure
        ("skipped", False, False),
    ],
)
def test_who_takes_more_than_it_may(verdict, allowed, fails):
    assert result(verdict).exceeds is (verdict == "over")
    assert result(verdict, status="grown", allowed=allowed).exceeds is fails


def test_growth_is_the_reason_where_it_is_why_a_test_fails():
    assert result(status="grown", allowed=False).reason_line == "grown: grew"
    change = {"transformers": VersionChange("4.48.2", "4.48.3")}
    upgraded = Comparison("grown", "grew", False, distributions=change)
    line = TestResult("a::b", "a:1", "within", "why", comparison=upgraded).reason_line
    assert line == "grown with transformers 4.48.2 -> 4.48.3: grew"
    assert result(status="grown").reason_line == result().reason_line == "why"


def test_a_measured_verdict_replaces_the_estimates_where_it_is_another():
    over = TestResult("a::b", "a:1", "over", "1 B over", rank=2, estimates=(figure(3, "measured", 2),))
    measured = with_measurement(result(estimates=(figure(1),)), over)

    assert (measured.verdict, measured.reason) == ("over", "measured on CUDA: 1 B over")
    assert measured.rank == 2
    assert measured.estimate_and_measurement == (figure(1), figure(3, "measured", 2))


def test_the_same_verdict_keeps_the_estimates_reason():
    within = TestResult("a::b", "a:1", "within", "50% of it", estimates=(figure(2, "measured"),))
    measured = with_measurement(result(estimates=(figure(1),)), within)

    assert (measured.verdict, measured.reason) == ("within", "why")
    assert measured.measurements == (figure(2, "measured"),)


@pytest.mark.parametrize(
    ("budget", "peak_mib", "causes", "unchecked"),
    [
        ({"gib": 1}, 1015, [CONVOLUTION], []),
        ({"gib": 1}, 1016, [CONVOLUTION], [CONVOLUTION]),  # 9 MiB more would be over
        ({"gib": 1}, 1015, [LIBRARY, CONVOLUTION], [LIBRARY]),
        ({"gib": 1, "metric": "reserved"}, 100, [CONVOLUTION], [CONVOLUTION]),
        ({"gib": 1, "components": {"workspaces": 0.1}}, 100, [CONVOLUTION], [CONVOLUTION]),
        ({"max_growth": 0.1}, 100, [CONVOLUTION], [CONVOLUTION]),
    ],
)
def test_memory_that_is_bounded_is_checked_where_the_budget_has_room_for_it(
    budget, peak_mib, causes, unchecked
):
    estimate = replace(figure(peak_mib * 2**20), caveats=[Caveat(cause, "a.py:1") for cause in causes])
    one = result(budget=Budget(**budget), limit_bytes=2**30, estimates=(estimate,))

    assert [caveat.cause for caveat in one.unchecked_caveats] == unchecked


@pytest.mark.parametrize(("budget", "mark"), [({"gib": 1}, ""), ({"gib": 1, "host_gib": 1}, "*")])
def test_what_the_budget_does_not_limit_is_no_mark(budget, mark):
    estimate = replace(figure(2**20), caveats=[Caveat(HOST_DEPENDS, "a.py:1")])

    assert result(budget=Budget(**budget), estimates=(estimate,)).mark == mark


def test_the_worst_estimate_is_of_the_rank_that_takes_most():
    both = result(estimates=(figure(1), figure(2, rank=1)))

    assert both.worst_estimate == figure(2, rank=1)


@pytest.mark.parametrize(
    ("comparison", "verdict", "reason"),
    [
        (Comparison("not comparable", "no base"), "unset", "not compared: no base; why"),
        (Comparison("new", "not there"), "unset", "not compared: not there; why"),
        (Comparison("unchanged", bytes=1, base=BaseFigure(1)), "within", ""),
        (Comparison("grown", allowed=False, bytes=1, base=BaseFigure(1)), "within", ""),
        (None, "unset", "why"),
    ],
)
def test_a_comparison_is_all_that_checks_a_budget_of_growth_alone(comparison, verdict, reason):
    compared = with_comparison(result(verdict="unset", budget=Budget(max_growth="1%")), comparison)

    assert (compared.verdict, compared.reason) == (verdict, reason)
    assert compared.exceeds == (comparison is not None and comparison.status == "grown")


def test_a_test_without_any_limit_stays_so_whatever_the_comparison_finds():
    assert (
        with_comparison(
            result(verdict="unset", budget=Budget()), Comparison("unchanged", bytes=1, base=BaseFigure(1))
        ).verdict
        == "unset"
    )


def test_a_report_of_host_memory_has_no_host_of_its_own():
    written = figure(7).to_json()
    del written["host"]  # as report.json is read: see ``reporting.document``

    assert MemoryReport.from_json(written) == figure(7)


def test_the_json_form_gives_the_same_value_back():
    timeline = Timeline((0, 3), {"activations": (0, 4)}, 3, ((1, "forward"),))
    full = MemoryReport(
        "traced",
        "reserved",
        {"allocated": 1, "reserved": 3, "device": 4},
        {"activations": 3},
        (Holder(3, 1, "activations", "layers.*", "a.py:3", "aten::mm", "x = f(x)"),),
        1,
        figure(7),
        (Caveat(READ, "assumed"), Caveat(LIBRARY, "not modelled")),
        0.5,
        timeline,
        "stand-in",
    )
    change = Finding(-3, "gradients", None, "a.py:3", "a.py:1", "aten::mm", 2, -2)
    versions = {"new": VersionChange(None, "1"), "gone": VersionChange("2", None)}
    comparison = Comparison(
        "shrunk",
        "less",
        None,
        4,
        BaseFigure(5, {"activations": 5}, timeline),
        (change,),
        (RunDifference("inputs", "0.5 times as large"),),
        versions,
    )
    known = TestResult(
        "a::b", "a.py:3", "over", "why", Budget(gib=1, gpus=2, components={"inputs": 0.5}), 5,
        "more", True, 1, 9, True, (full,), (figure(3, "measured"),), "no CUDA", (("name", 1),),
        "a.pickle", "full disk", True, comparison,
    )  # fmt: skip

    assert TestResult.from_json(json.loads(json.dumps(known.to_json()))) == known


def test_of_many_versions_the_first_are_named():
    changes = {"a": VersionChange("1", "2"), "b": VersionChange(None, "1"), "c": VersionChange("3", None)}

    assert versions_text(changes) == "a 1 -> 2, b 1 added, c 3 removed"
    assert versions_text(changes, lambda text: f"<{text}>", 1) == "<a 1 -> 2> and 2 more"
    assert versions_text({}) == ""
