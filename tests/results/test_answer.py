"""What a worker is asked for one test, and what its answer makes of the test."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget
from pytest_membudget.budgets.marked_test import MarkedTest
from pytest_membudget.budgets.verdict import ERROR, OVER, SKIPPED, WITHIN
from pytest_membudget.components import COMPONENTS, METRICS
from pytest_membudget.memory_report import MemoryReport
from pytest_membudget.results.answer import TRACED, Answer, Request, failed, read_answer

GIB = 1_073_741_824


def report(gib, rank=0):
    size = int(gib * GIB)
    components = {**dict.fromkeys(COMPONENTS, 0), "temporaries": size}
    return MemoryReport("traced", "allocated", dict.fromkeys(METRICS, size), components, rank=rank)


def traced(*reports):
    return Answer(TRACED, reports=reports)


def answered(budget, answer, snapshot=None):
    return read_answer(MarkedTest("t.py::t", "t.py::t", "t.py", "t.py", 1, budget), answer, snapshot)


def test_a_figure_is_held_to_the_budget():
    assert answered(Budget(gib=2), traced(report(1))).verdict == WITHIN
    assert answered(Budget(gib=2), traced(report(3))).verdict == OVER


def test_any_rank_counts():
    found = answered(Budget(gib=2, gpus=2), traced(report(1, rank=0), report(3, rank=1)))

    assert (found.verdict, found.rank) == (OVER, 1)


@pytest.mark.parametrize("budget", [Budget(gib=2), Budget(gpu="RTX-4090")])
def test_who_runs_out_of_memory_is_over_with_operator_and_place(budget):
    answer = Answer("out_of_memory", "aten::mm asked for 4.00 GiB", where="test_a.py:7")

    found = answered(budget, answer)

    assert found.verdict == OVER
    assert found.reason.endswith("aten::mm asked for 4.00 GiB, at test_a.py:7")


def test_a_body_that_raised_is_an_error_with_its_details():
    answer = failed("ValueError: no\nsecond line", details="more", raised=True)

    found = answered(Budget(gib=2), answer)

    assert (found.verdict, found.reason) == (ERROR, "ValueError: no")
    assert (found.details, found.raised) == ("second line\nmore", True)


def test_a_skip_on_the_device_is_no_figure():
    found = answered(Budget(gib=2), Answer("skipped", "too slow"))

    assert (found.verdict, found.reason) == (SKIPPED, "skipped on the stand-in: too slow")


def test_a_snapshot_is_named_if_it_was_written_and_by_its_rank():
    answer = traced(report(1, rank=0), report(1, rank=1))

    assert answered(Budget(gib=2, gpus=2), answer, "a.pickle").snapshot is None
    written = replace(answer, has_snapshot=True)
    assert answered(Budget(gib=2), written, "a.pickle").snapshot == "a.pickle"
    of_rank = replace(written, snapshot_rank=1)
    assert answered(Budget(gib=2, gpus=2), of_rank, "a.pickle").snapshot == "a-rank1.pickle"


def test_an_answer_without_a_report_is_an_error():
    assert answered(Budget(gib=2), Answer(TRACED)).verdict == ERROR


# What a worker is asked for


def asked_for(budget, *snapshot):
    test = MarkedTest("a::b", "/a.py::b", "/a.py", "a.py", 1, budget)
    return Request.of(test, budget, "H100-80GB", *snapshot)


def test_a_worker_is_asked_for_the_budgets_card_and_metric():
    asked = asked_for(Budget(gpu="RTX-4090", metric="device"), "/s.pickle")

    assert (asked.gpu, asked.limited, asked.metric) == ("RTX-4090", True, "device")
    assert (asked.key, asked.file, asked.snapshot) == ("/a.py::b", "/a.py", "/s.pickle")


def test_the_card_of_a_budget_that_names_none_limits_nothing():
    asked = asked_for(Budget(gib=2))

    assert (asked.gpu, asked.limited, asked.snapshot) == ("H100-80GB", False, None)
