"""GitLab's metrics and code quality, read as GitLab reads them."""

import json
import re
import shlex

from pytest_membudget.reporting.gitlab import code_quality, metrics

GIB = 2**30


def read_by_gitlab(text):
    """Names and values: lib/gitlab/ci/parsers/metrics/generic.rb takes comments off and splits as a shell."""
    lines = [shlex.split(re.sub("#.*$", "", line)) for line in text.splitlines()]
    return {words[0]: words[1] for words in lines if words}


def test_metrics_are_peak_budget_and_components(document, row):
    assert metrics(document(row("t::a"))) == (
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
    assert metrics(document()) == "# EOF\n"


def test_a_test_without_a_figure_has_its_budget_only(document, row):
    read = read_by_gitlab(metrics(document(row("t::a", verdict="error", estimates=[]))))
    assert read == {"membudget_budget_bytes{test=t::a}": "5368709120"}


def test_gitlab_reads_every_name_whole(document, row):
    names = ["t::a[b c]", 't::a["x"]', "t::a['x']", "t::a[\\]", "t::a[#1]", "t::a[$x`y`]"]
    read = read_by_gitlab(metrics(document(*(row(name) for name in names))))
    assert len(read) == 5 * len(names)
    assert set(read.values()) == {"4294967296", "5368709120", "3221225472", "1073741312", "512"}


def test_a_hostile_report_adds_no_metric(document, hostile_report):
    read = read_by_gitlab(metrics(document(*hostile_report["tests"])))
    assert len(read) == 4 + 3 * 4  # of four tests three have figures
    assert all(name.startswith("membudget_") and value.isdecimal() for name, value in read.items())


def test_code_quality_has_what_fails_at_its_mark(document, row, over):
    [entry] = json.loads(code_quality(document(row(), over())))
    assert entry.pop("description").startswith(
        "tests/test_memory.py::test_over: Takes 4.00 GiB, 1.00 GiB over"
    )
    assert len(entry.pop("fingerprint")) == 64
    assert entry == {
        "check_name": "membudget-over",
        "severity": "major",
        "location": {"path": "tests/test_memory.py", "lines": {"begin": 12}},
    }


def test_what_is_over_since_before_is_minor(document, over, comparison):
    [entry] = json.loads(code_quality(document(over(comparison=comparison(status="still-over")))))
    assert (entry["severity"], entry["check_name"]) == ("minor", "membudget-still-over")


def test_a_fingerprint_stays_when_lines_and_figures_change(document, over):
    def fingerprint(*args, **changes):
        return json.loads(code_quality(document(over(*args, **changes))))[0]["fingerprint"]

    assert fingerprint() == fingerprint(line=40, limit_bytes=2 * GIB)
    assert fingerprint() != fingerprint("tests/test_memory.py::test_other")
    assert fingerprint() != fingerprint(file="tests/other.py")


def test_a_hostile_report_has_paths_inside_the_repository(document, hostile_report):
    for entry in json.loads(code_quality(document(*hostile_report["tests"]))):
        assert not entry["location"]["path"].startswith(("/", "."))
        assert entry["location"]["lines"]["begin"] >= 1
