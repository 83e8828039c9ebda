"""What report.json says of a comparison with a stored report as a whole."""

from dataclasses import replace

import pytest

from pytest_membudget.comparison.base.exchange import Base, Facts
from pytest_membudget.comparison.base.sources import StoredReport
from pytest_membudget.comparison.comparing import Comparing
from pytest_membudget.reporting.files.json_file import installed_distributions
from pytest_membudget.results.test_result import TestResult


def whole(rows, *, stored=None, is_whole=True):
    source = StoredReport("report.json", stored) if stored is not None else None
    comparing = Comparing(source)
    return comparing.session(rows, is_whole=is_whole, lists_removed=True)


def result(nodeid):
    return TestResult(nodeid, "a.py:1", "within", "")


BASE = Base(results={"a.py::kept": result("a.py::kept"), "a.py::gone": result("a.py::gone")})


def test_without_a_base_there_is_nothing_to_say():
    assert whole([]) is None


def test_tests_that_the_base_has_alone_are_removed():
    said = whole([result("a.py::kept"), result("a.py::new")], stored=BASE)

    assert said.removed == ("a.py::gone",)
    assert said.base == "report.json"


def test_versions_that_changed_since_a_stored_report_are_named():
    installed = {**installed_distributions(), "pytest": "1.0"}
    base = replace(BASE, facts=Facts(distributions=installed))
    [(name, changed)] = whole([], stored=base).distributions.items()

    assert (name, changed.base, changed.head) == ("pytest", "1.0", pytest.__version__)
    assert whole([], stored=BASE).distributions == {}


def test_a_subset_of_the_tests_says_nothing_of_those_that_it_has_not_run():
    assert whole([result("a.py::kept")], stored=BASE, is_whole=False).removed == ()
