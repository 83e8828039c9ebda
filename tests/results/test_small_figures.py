"""A figure under 1% of its budget gets a word: it may not be what is trained."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.caveats import UNTRAINED, Caveat
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.reporting.document import Document
from pytest_membudget.reporting.status import legend, reported_tests
from pytest_membudget.reporting.terminal.console import small_line
from pytest_membudget.results.test_result import TestResult


def result(peak_bytes, limit_bytes=10_000, verdict="within", name="a"):
    report = MemoryReport("traced", "allocated", {"allocated": peak_bytes}, {"inputs": peak_bytes})
    return TestResult(f"t.py::{name}", "t.py:1", verdict, "", limit_bytes=limit_bytes, estimates=(report,))


@pytest.mark.parametrize(("peak_bytes", "is_small"), [(99, True), (100, False), (0, False)])
def test_less_than_a_hundredth_is_small(peak_bytes, is_small):
    assert result(peak_bytes).is_small == is_small


def test_only_what_is_within_a_budget_of_the_whole_is_small():
    assert not result(1, limit_bytes=None).is_small
    assert not result(1, verdict="error").is_small


def test_what_a_card_has_is_no_size_that_somebody_expects():
    assert not replace(result(1), budget=Budget(gpu="A100-80GB")).is_small
    assert replace(result(1), budget=Budget(gib=1, gpu="A100-80GB")).is_small


def test_the_summary_has_one_line_for_all():
    rows = [result(1), result(5_000, name="b"), result(2, name="c")]

    assert list(small_line(rows)) == ["under 1% of the budget, is it what you train?: t.py::a and 1 more"]
    assert list(small_line(rows[1:2])) == []
    assert list(legend(rows)) == []


def test_an_optimizer_without_a_backward_gets_a_word():
    idle = result(5_000, name="b")
    report = replace(idle.estimates[0], caveats=(Caveat(UNTRAINED, "no parameter has got a gradient"),))
    rows = [result(5_000), replace(idle, estimates=(report,))]

    assert list(small_line(rows)) == ["an optimizer, and no backward ran, is it what you train?: t.py::b"]
    assert rows[1].mark == ""
    assert list(small_line([replace(rows[1], raised=True)])) == []  # it ended before one could run


@pytest.mark.parametrize(("taken_bytes", "gib", "is_said"), [(0, 1, True), (1, 1, False), (0, 0, False)])
def test_a_limit_of_a_component_that_nothing_is_counted_as_gets_a_word(taken_bytes, gib, is_said):
    report = MemoryReport("traced", "allocated", {"allocated": 5_000}, {"gradients": taken_bytes})
    budget = Budget(gib=1, components={"gradients": gib})
    row = replace(result(5_000), budget=budget, estimates=(report,))

    said = ["a limit of gradients, and there are none, is it what you train?: t.py::a"] if is_said else []
    assert list(small_line([row])) == said


def test_the_other_reports_say_so_at_the_test():
    [one] = reported_tests(Document((result(1),)))

    assert one.explained().endswith("That is under 1%: is it what you train?")
