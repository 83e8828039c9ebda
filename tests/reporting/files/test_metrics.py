"""Figures over time, as GitLab, github-action-benchmark and Bencher read them."""

import json
import re
import shlex

from pytest_membudget.reporting.files.metrics import bencher, open_metrics, smaller_is_better


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


# GitLab


def read_by_gitlab(text):
    """Names and values: lib/gitlab/ci/parsers/metrics/generic.rb takes comments off and splits as a shell."""
    lines = [shlex.split(re.sub("#.*$", "", line)) for line in text.splitlines()]
    return {words[0]: words[1] for words in lines if words}


def test_metrics_are_peak_budget_and_components(document, row):
    assert open_metrics(document(row("t::a"))) == (
        "# TYPE membudget_peak_bytes gauge\n"
        "# UNIT membudget_peak_bytes bytes\n"
        "# HELP membudget_peak_bytes GPU memory: what the test takes\n"
        'membudget_peak_bytes{test="t::a",metric="allocated",kind="traced"} 4294967296\n'
        "# TYPE membudget_budget_bytes gauge\n"
        "# UNIT membudget_budget_bytes bytes\n"
        "# HELP membudget_budget_bytes GPU memory: what it may take\n"
        'membudget_budget_bytes{test="t::a"} 5368709120\n'
        "# TYPE membudget_component_bytes gauge\n"
        "# UNIT membudget_component_bytes bytes\n"
        "# HELP membudget_component_bytes GPU memory: what of the peak is what\n"
        'membudget_component_bytes{test="t::a",component="parameters"} 3221225472\n'
        'membudget_component_bytes{test="t::a",component="activations"} 1073741312\n'
        'membudget_component_bytes{test="t::a",component="rounding"} 512\n'
        "# EOF\n"
    )


def test_metrics_of_nothing_are_an_empty_file(document):
    assert open_metrics(document()) == "# EOF\n"


def test_a_test_without_a_figure_has_its_budget_only(document, row):
    read = read_by_gitlab(open_metrics(document(row("t::a", verdict="error", estimates=[]))))
    assert read == {"membudget_budget_bytes{test=t::a}": "5368709120"}


def test_gitlab_reads_every_name_whole(document, row):
    names = ["t::a[b c]", 't::a["x"]', "t::a['x']", "t::a[\\]", "t::a[#1]", "t::a[$x`y`]"]
    read = read_by_gitlab(open_metrics(document(*(row(name) for name in names))))
    assert len(read) == 5 * len(names)
    assert set(read.values()) == {"4294967296", "5368709120", "3221225472", "1073741312", "512"}


def test_a_hostile_report_adds_no_metric(document, hostile_report):
    read = read_by_gitlab(open_metrics(document(*hostile_report["tests"])))
    assert len(read) == 4 + 3 * 4  # of four tests three have figures
    assert all(name.startswith("membudget_") and value.isdecimal() for name, value in read.items())
