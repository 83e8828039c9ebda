"""The summary of a session: its table, and the rows of tests that pass though they changed."""

import pytest

from pytest_membudget.reporting.console import summary_lines
from pytest_membudget.results.test_result import TestResult

MIB = 2**20
GIB = 2**30


@pytest.fixture
def lines():
    """``lines(row, ...)`` is the summary of these rows."""

    def made(*rows, **notes):
        return list(summary_lines([TestResult.from_json(row) for row in rows], {}, notes, 0))

    return made


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (16 * 2**10, "16.0 KiB"),
        (5 * MIB, "5.0 MiB"),
        (11 * MIB, "0.01 GiB"),
        (64 * MIB, "0.06 GiB"),
        (3 * GIB, "3.00 GiB"),
    ],
)
def test_a_size_has_a_unit_that_shows_it(lines, row, figure, size, shown):
    small = figure({"peak.allocated_bytes": size, "components": {"inputs": size}, "timeline": None})
    [_, _, line, _] = lines(row(estimates=[small], limit_bytes=size))

    assert line.split("  ")[1].strip() == shown
    assert f"inputs {shown} " in line


def test_a_small_host_memory_has_a_unit_that_shows_it(lines, row):
    budget = {"gib": 5, "host_gib": 0.5}

    assert "16.0 KiB of 0.50 GiB" in lines(row(budget=budget, host_bytes=2**14))[2]
    assert " 0.25 of 0.50 GiB " in lines(row(budget=budget, host_bytes=2**28))[2]


@pytest.mark.parametrize(
    ("status", "growth", "word", "size", "more"),
    [
        ("waived", GIB, "waived", "+1.00 GiB", "more"),
        ("shrunk", -GIB, "shrunk", "-1.00 GiB", "less"),
        ("unchanged", GIB, "grown and allowed", "+1.00 GiB", "more"),
    ],
)
def test_a_test_that_passes_though_it_changed_has_its_rows(
    lines, row, comparison, status, growth, word, size, more
):
    finding = {"bytes": growth, "component": "activations", "location": "src/model.py:57"}
    changed = comparison(status=status, growth_bytes=growth, findings=[finding])
    *_, about, change, counts = lines(row("a::b", comparison=changed))

    assert about == f"{word}: a::b takes 1.00 GiB (33.3%) {more} than at the base"
    assert change == f"     {size}  activations at src/model.py:57"
    assert "1 estimated" in counts


def test_a_test_that_fails_has_its_rows_in_its_failure_alone(lines, row, over, comparison):
    assert len(lines(row(comparison=comparison()))) == 4
    assert len(lines(over(comparison=comparison(status="new-over")))) == 4


def test_of_many_tests_that_changed_the_largest_changes_are_shown(lines, row, comparison):
    rows = [
        row(f"a::{n:02}", comparison=comparison(status="waived", growth_bytes=n * GIB)) for n in range(1, 25)
    ]
    text = "\n".join(lines(*rows))

    assert text.count("waived: ") == 10
    assert "waived: a::24 takes" in text
    assert "and 14 more that changed and pass; report.json has all" in text
