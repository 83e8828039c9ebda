"""The names of a test's figures in pytest's JUnit file."""

from pytest_membudget.reporting.files.junit import figures
from pytest_membudget.results.test_result import TestResult

GIB = 2**30


def test_the_figures_are_those_of_the_rank_that_takes_most(row):
    assert dict(figures(TestResult.from_json(row()))) == {
        "membudget.budget_bytes": 5368709120,
        "membudget.estimated_metric": "allocated",
        "membudget.estimated_bytes": 4294967296,
        "membudget.estimated_parameters_bytes": 3221225472,
        "membudget.estimated_activations_bytes": 1073741312,
        "membudget.estimated_rounding_bytes": 512,
    }


def test_a_measurement_has_its_own_names(row, figure):
    measured = figure({"kind": "measured"})
    names = dict(figures(TestResult.from_json(row(measurements=[measured], limit_bytes=None))))
    assert names["membudget.measured_bytes"] == names["membudget.estimated_bytes"] == 4 * GIB
    assert "membudget.budget_bytes" not in names
