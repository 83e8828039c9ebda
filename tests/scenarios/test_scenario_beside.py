"""Analytic, traced and measured of one test, side by side."""

from dataclasses import replace

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.memory_report import MemoryReport, PeakBytes
from pytest_membudget.reporting.terminal.console import disagreements
from pytest_membudget.reporting.terminal.failure import failure_text, figures_table
from pytest_membudget.results.test_result import TestResult, with_measurement
from pytest_membudget.units import GIB


def figure(kind, gib, rank=0):
    peak = PeakBytes(int(gib * GIB), 0, 0, 0)
    components = {"parameters": 1 * GIB, "activations": int((gib - 1) * GIB)}
    return MemoryReport(kind, "allocated", peak, components, rank=rank)


def row_of(*estimates, measured=None, gpus=1, rank=None):
    budget = Budget(gib=1, gpus=gpus)
    row = TestResult(
        "test_a.py::test_a", "test_a.py", 1, "over", "over", budget, GIB, rank=rank, estimates=estimates
    )
    if measured is None:
        return row
    return with_measurement(row, replace(row, estimates=(measured,)))


def test_the_analytic_figure_is_shown_and_does_not_decide():
    row = row_of(figure("traced", 2), figure("analytic", 3))

    assert row.worst_estimate.kind == "traced"
    assert row.scenario_figure.kind == "analytic"


def test_a_scenario_has_no_second_figure():
    row = row_of(figure("analytic", 2), figure("analytic", 3, rank=4))

    assert row.worst_estimate.rank == 4
    assert row.scenario_figure is None


def test_the_same_rank_is_compared_and_the_worst_where_it_has_none():
    traced = (figure("traced", 2), figure("traced", 3, rank=1))
    analytic = (figure("analytic", 5), figure("analytic", 4, rank=1))

    assert row_of(*traced, *analytic, gpus=2).scenario_figure.rank == 1
    assert row_of(*traced, *analytic, gpus=2, rank=0).scenario_figure.rank == 0
    assert row_of(*traced, figure("analytic", 9), gpus=2).scenario_figure.rank == 0


def test_two_figures_have_one_ratio():
    row = row_of(figure("traced", 2), figure("analytic", 3))

    assert [line.split() for line in figures_table(row)] == [
        ["Peak", "memory:"],
        ["analytic", "traced", "ratio"],
        ["parameters", "1.00", "GiB", "1.00", "GiB", "1.000"],
        ["activations", "2.00", "GiB", "1.00", "GiB", "2.000"],
        ["=", "total", "3.00", "GiB", "2.00", "GiB", "1.500"],
    ]


def test_three_figures_have_two():
    row = row_of(figure("traced", 2), figure("analytic", 3), measured=figure("measured", 2.5))

    assert [line.split() for line in figures_table(row)] == [
        ["Peak", "memory:"],
        ["analytic", "traced", "ratio", "measured", "ratio"],
        ["parameters", "1.00", "GiB", "1.00", "GiB", "1.000", "1.00", "GiB", "1.000"],
        ["activations", "2.00", "GiB", "1.00", "GiB", "2.000", "1.50", "GiB", "0.667"],
        ["=", "total", "3.00", "GiB", "2.00", "GiB", "1.500", "2.50", "GiB", "0.800"],
    ]
    assert "\n".join(figures_table(row)) in failure_text(row)


def test_each_pair_that_disagrees_is_reported():
    row = row_of(figure("traced", 2), figure("analytic", 3), measured=figure("measured", 2.05))

    assert disagreements(row, 0.6) == []
    assert disagreements(row, 0.05) == [
        "test_a.py::test_a: analytic 3.00 GiB, traced 2.00 GiB, ratio 1.500; the analytic figure has "
        "1.00 GiB more activations"
    ]
    assert len(disagreements(row, 0.01)) == 2
