"""Ratios of estimates and measured figures, and what they are together."""

import pytest

from benchmarks.comparison import Comparison, summarize, with_measured, with_published
from benchmarks.published_figures import Published


def comparison(ratio, **more):
    return Comparison("case", "family", "allocated", ratio * 1000, 1000, **more)


def published(**more):
    entry = {
        "id": "small", "family": "f", "source": "s", "gpu": "g", "torch": "2", "grade": "A",
        "test": "test_x.py::test_it", "unit": "B", "measured_bytes": {"allocated": 100},
    }  # fmt: skip
    return Published(**{**entry, **more})


def peaks(size_bytes, rank=0):
    names = ("allocated", "active", "reserved", "device")
    return {"rank": rank, "peak": dict.fromkeys(names, size_bytes)}


def row(nodeid="benchmarks/cases/test_x.py::test_it[small]", verdict="within", **more):
    made = {"nodeid": nodeid, "verdict": verdict, "reason": "why", "estimates": [peaks(90)]}
    return {**made, "measurements": [], "properties": [], **more}


def test_a_ratio_is_estimate_over_measured():
    assert comparison(0.5).ratio == 0.5


def test_the_summary_counts_what_is_under_equal_and_over():
    summary = summarize([comparison(ratio) for ratio in (0.9, 0.9995, 1.0, 1.0005, 1.02)])

    assert (summary.count, summary.median) == (5, 1.0)
    assert (summary.under, summary.equal, summary.over) == (0.2, 0.6, 0.2)


def test_the_worst_is_the_one_furthest_from_one_whichever_side():
    assert summarize([comparison(1.05), comparison(0.9)]).worst == 0.9
    assert summarize([comparison(1.2), comparison(0.9)]).worst == 1.2


@pytest.mark.parametrize(
    ("ratio", "explained", "expected"),
    [(1.02, "", True), (0.98, "", True), (1.005, "", False), (1.02, "dropped last batch", False)],
)
def test_more_than_a_percent_needs_a_cause(ratio, explained, expected):
    assert comparison(ratio, explained=explained).is_unexplained is expected


def test_a_published_figure_meets_the_row_of_its_test():
    (found,), troubles = with_published([row("other.py::test_it[small]"), row()], [published()])

    assert (found.estimate_bytes, found.measured_bytes, troubles) == (90, 100, [])


def test_the_worst_rank_is_compared():
    (found,), _ = with_published([row(estimates=[peaks(80), peaks(110, rank=1)])], [published()])

    assert found.ratio == 1.1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "no row of test_x.py::test_it"),
        ([row(verdict="error")], "no figure for allocated: error, why"),
        ([row(estimates=[])], "no figure for allocated"),
    ],
)
def test_a_case_without_a_figure_is_trouble_and_not_left_out(rows, said):
    found, (trouble,) = with_published(rows, [published()])

    assert found == []
    assert trouble.startswith("small: ")
    assert said in trouble


def test_a_report_is_held_against_its_own_measurements_rank_by_rank():
    both = row(estimates=[peaks(90), peaks(80, 1)], measurements=[peaks(100), peaks(100, 1)])

    found, troubles = with_measured([both])

    assert [(one.metric, one.ratio) for one in found] == [
        ("allocated", 0.9), ("reserved", 0.9), ("allocated", 0.8), ("reserved", 0.8),
    ]  # fmt: skip
    assert troubles == []


def test_a_report_without_measurements_says_so():
    assert with_measured([row("t.py::test_a")]) == ([], ["t.py::test_a: not measured"])


def test_a_measured_rank_without_an_estimate_is_trouble():
    found, (trouble,) = with_measured([row(measurements=[peaks(100, rank=3)])])

    assert found == []
    assert "rank 3 was measured and not estimated" in trouble
