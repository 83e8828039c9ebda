"""A JUnit file of the budgets, and the names of their figures."""

import xml.etree.ElementTree as ElementTree

from pytest_membudget.reporting.files.junit import figures, junit
from pytest_membudget.results.test_result import TestResult

GIB = 2**30


def cases(text):
    return {case.get("name"): case for case in ElementTree.fromstring(text).iter("testcase")}


def test_counts_and_order_are_those_of_the_report(document, row, over):
    rows = [
        row("t.py::a"),
        over("t.py::b"),
        row("t.py::c", verdict="skipped", estimates=[]),
        row("t.py::d", verdict="unset"),
    ]
    text = junit(document(*rows))
    suite = ElementTree.fromstring(text).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "2")
    assert list(cases(text)) == ["a", "b", "c", "d"]


def test_a_case_has_its_figures_as_properties(document, row):
    [case] = cases(junit(document(row("tests/t.py::A::a[x::y]")))).values()
    assert (case.get("classname"), case.get("name")) == ("tests.t", "A::a[x::y]")
    assert (case.get("file"), case.get("line")) == ("tests/test_memory.py", "12")
    found = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert found == {
        "membudget.verdict": "within",
        "membudget.budget_bytes": "5368709120",
        "membudget.estimated_metric": "allocated",
        "membudget.estimated_bytes": "4294967296",
        "membudget.estimated_parameters_bytes": "3221225472",
        "membudget.estimated_activations_bytes": "1073741312",
        "membudget.estimated_rounding_bytes": "512",
    }


def test_a_failure_says_what_holds_the_memory(document, over):
    failure = cases(junit(document(over())))["test_over"].find("failure")
    assert failure.get("message") == "Takes 4.00 GiB, 1.00 GiB over its budget of 3.00 GiB."
    assert "3.00 GiB parameters of layers.*.weight x2 at src/model.py:41 (aten::empty)" in failure.text


def test_growth_is_a_failure_with_its_property(document, row, comparison):
    [case] = cases(junit(document(row(comparison=comparison())))).values()
    found = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert case.find("failure").get("type") == "grown too much"
    assert (found["membudget.status"], found["membudget.growth_bytes"]) == ("grown", str(GIB))


def test_growth_that_is_waived_has_its_rows(document, row, comparison):
    [case] = cases(junit(document(row(comparison=comparison(status="waived"))))).values()

    assert case.find("failure") is None
    assert case.find("system-out").text.splitlines()[1:] == [
        "  +1.00 GiB  activations of layers.*.mlp",
        "      src/model.py:57 (was src/model.py:55) (aten::gelu)",
    ]


def test_an_expected_failure_is_none(document, over):
    assert cases(junit(document(over(expected=True))))["test_over"].find("failure") is None


def test_hostile_texts_come_back_as_they_are_shown(document, hostile_report):
    read = document(*hostile_report["tests"])
    found = ElementTree.fromstring(junit(read))
    assert len(list(found.iter("testcase"))) == 4
    assert {element.tag for element in found.iter()} == {
        "testsuites", "testsuite", "testcase", "properties", "property", "failure", "skipped",
        "system-out",
    }  # fmt: skip


def test_a_measurement_has_its_own_names(row, figure):
    measured = figure({"kind": "measured"})
    names = dict(figures(TestResult.from_json(row(measurements=[measured], limit_bytes=None))))
    assert names["membudget.measured_bytes"] == names["membudget.estimated_bytes"] == 4 * GIB
    assert "membudget.budget_bytes" not in names
