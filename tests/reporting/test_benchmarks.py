"""Figures over time, as github-action-benchmark and Bencher take them."""

import json

from pytest_membudget.reporting.benchmarks import bencher, smaller_is_better


def test_smaller_is_better_has_the_peak_of_each_test(document, row, over):
    assert json.loads(smaller_is_better(document(row("t::a"), over("t::b", limit_bytes=None)))) == [
        {
            "name": "t::a",
            "unit": "bytes",
            "value": 4294967296,
            "extra": "traced allocated; budget: 5368709120 bytes",
        },
        {
            "name": "t::b",
            "unit": "bytes",
            "value": 4294967296,
            "extra": "traced allocated; no budget of the whole",
        },
    ]


def test_bencher_has_peak_budget_and_components(document, row):
    assert json.loads(bencher(document(row("t::a")))) == {
        "t::a": {
            "peak-allocated-bytes": {"value": 4294967296},
            "budget-bytes": {"value": 5368709120},
            "parameters-bytes": {"value": 3221225472},
            "activations-bytes": {"value": 1073741312},
            "rounding-bytes": {"value": 512},
        }
    }


def test_a_test_without_a_figure_is_left_out(document, row):
    empty = document(row(verdict="error", estimates=[]))
    assert json.loads(smaller_is_better(empty)) == []
    assert json.loads(bencher(empty)) == {}


def test_names_longer_than_services_take_stay_apart(document, row):
    long = "t::" + "x" * 2000
    names = list(json.loads(bencher(document(row(long + "a"), row(long + "b")))))
    assert [len(name) for name in names] == [1024, 1024]
    assert names[0] != names[1]
