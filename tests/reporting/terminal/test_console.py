"""The summary of a session: its table, and the rows of tests that pass though they changed."""

import re

import pytest

from pytest_membudget.reporting.terminal.console import summary_lines
from pytest_membudget.results.test_result import TestResult

MIB = 2**20
GIB = 2**30


@pytest.fixture
def lines():
    """``lines(row, ...)`` is the summary of these rows."""

    def made(*rows, **given):
        results = [TestResult.from_json(row) for row in rows]
        return list(summary_lines(results, **{"width": 200, **given}))

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
    small = figure({"peak.allocated": size, "components": {"inputs": size}, "timeline": None})
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
        ("shrunk", -GIB, "shrunk", "-1.00 GiB", "less"),
        ("grown", GIB, "grown and allowed", "+1.00 GiB", "more"),
    ],
)
def test_a_test_that_passes_though_it_changed_has_its_rows(
    lines, row, comparison, status, growth, word, size, more
):
    finding = {"bytes": growth, "component": "activations", "location": "src/model.py:57"}
    changed = comparison(status=status, allowed=None, bytes=3 * GIB + growth, findings=[finding])
    *_, about, change, place, counts = lines(row("a::b", comparison=changed))

    assert about == f"{word}: a::b takes 1.00 GiB (33.3%) {more} than at the base"
    assert (change, place) == (f"  {size}  activations", "      src/model.py:57")
    assert "1 estimated" in counts


def test_a_test_that_fails_has_its_rows_in_its_failure_alone(lines, row, over, comparison):
    assert len(lines(row(comparison=comparison()))) == 4
    assert len(lines(over(comparison=comparison(allowed=None)))) == 4


def test_of_many_tests_that_changed_the_largest_changes_are_shown(lines, row, comparison):
    rows = [row(f"a::{n:02}", comparison=comparison(allowed=None, bytes=(3 + n) * GIB)) for n in range(1, 25)]
    text = "\n".join(lines(*rows))

    assert text.count("grown and allowed: ") == 10
    assert "grown and allowed: a::24 takes" in text
    assert "and 14 more that changed; report.json has all" in text


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({}, "gib=4"),
        ({"location": "train.membudget.yaml:3"}, "gib: 4"),
        ({"selected": True}, "@pytest.mark.mem_budget(gib=4)"),
    ],
)
def test_a_test_without_a_limit_has_the_limit_to_write_where_it_is_written(lines, row, changes, written):
    unset = row("a::b", verdict="unset", reason="takes 4.00 GiB, and nothing limits it", **changes)

    assert f"unset: a::b: takes 4.00 GiB, and nothing limits it; write {written}" in lines(unset)


# In the width of a terminal


@pytest.fixture
def wide(row, comparison):
    """A test with something in every column."""
    host = {"gib": 5, "host_gib": 136, "gpus": 1}
    return row(
        "tests/train/test_memory.py::test_pretraining[fsdp-8]",
        budget=host,
        host_bytes=129 * GIB,
        comparison=comparison(status="shrunk", allowed=None),
    )


def test_where_there_is_room_nothing_is_left_out(lines, wide):
    heading, _, line, *_ = lines(wide, width=200)

    assert heading.split() == ["test", "budget", "estimate", "base", "growth", "of", "budget", "host",
                               "largest", "component", "verdict"]  # fmt: skip
    assert line.startswith("tests/train/test_memory.py::test_pretraining[fsdp-8]  ")


@pytest.mark.parametrize("width", [72, 80, 100, 120])
def test_the_table_fits_the_terminal(lines, wide, over, width):
    heading, rule, *rows = lines(wide, over("tests/train/test_memory.py::test_over"), width=width)[:4]

    assert max(map(len, (heading, rule, *rows))) <= width
    assert heading.split()[0].endswith("::")
    assert heading.split()[1:3] == ["budget", "estimate"]
    assert heading.split()[-1] == "verdict"
    # of both the estimate, the budget and the verdict, whatever else is left out
    assert [re.search(r"(5|3)\.00 GiB  4\.00 GiB  ", line)[1] for line in rows] == ["5", "3"]
    assert [line.rstrip().endswith(("within (shrunk)", "over")) for line in rows] == [True, True]


def test_the_least_important_columns_go_first(lines, wide):
    headings = {width: lines(wide, width=width)[0].split() for width in (90, 120)}

    assert "growth" in headings[90]
    assert not {"largest", "base", "host"} & {*headings[90]}
    assert {"growth", "base", "host"} <= {*headings[120]}


@pytest.mark.parametrize(("allowed", "expected"), [(False, True), (None, False)])
def test_a_column_that_a_test_fails_by_stays_and_names_are_cut(lines, row, comparison, allowed, expected):
    known = comparison(status="shrunk" if allowed is None else "grown", allowed=allowed)
    long = row(f"a.py::test_{'long_' * 8}name", comparison=known)
    heading, _, line, *_ = lines(long, width=80)

    assert ("growth" in heading) is expected
    assert ("…" in line) is True
    assert len(line) <= 80


@pytest.fixture
def many(row, over):
    """25 tests: one over its budget, one without an estimate, one that was expected to be over."""
    rows = [row(f"a.py::test_{number:02}") for number in range(25)]
    rows[0] = over("a.py::test_00")
    rows[2] = row("a.py::test_02", verdict="error")
    rows[4] = over("a.py::test_04", expected=True)
    return rows


def names(lines):
    return [line.split()[0][-7:] for line in lines if line.startswith("a.py::test_")]


def test_of_many_tests_those_that_fail_are_listed_alone(lines, many):
    found = lines(*many, width=90)

    assert names(found) == ["test_04", "test_00", "test_02"]
    assert "others within their budgets: 22 (-v lists them)" in found


def test_verbose_lists_all_with_the_failures_last(lines, many):
    found = names(lines(*many, width=90, is_verbose=True))

    assert len(found) == 25
    assert found[-3:] == ["test_04", "test_00", "test_02"]


def test_up_to_twenty_are_all_listed(lines, many):
    assert len(names(lines(*many[:20]))) == 20
    assert len(names(lines(*many[:21]))) == 3


def test_verdicts_have_the_colours_of_pytest(lines, row, over):
    rows = (
        row("a"), row("b", verdict="error"), over("c"), over("d", expected=True), row("e", verdict="skipped"),
        row("f"),
    )  # fmt: skip
    found = lines(*rows, not_run=["f"], paint=lambda text, colour: f"<{colour} {text}>")

    assert [re.search(r"<\w+", line)[0] for line in found[2:8]] == [
        "<green", "<yellow", "<yellow", "<yellow", "<red", "<red",
    ]  # fmt: skip
    assert sorted(line[0] for line in found[2:8]) == list("abcdef")
    assert found[7].startswith("c")


def test_a_rank_is_named_where_another_takes_less(lines, row, figure):
    of_two = {"budget": {"gib": 5, "gpus": 2}}
    less = {"rank": 1, "peak.allocated": 3 * GIB, "components": {"parameters": 3 * GIB}}
    same = row(**of_two, estimates=[figure(), figure({"rank": 1})])
    other = row(**of_two, estimates=[figure(), figure(less)])

    assert "rank" not in lines(same)[0]
    assert "0 of 2" in lines(other)[2]


def test_a_test_that_raised_has_no_figure(lines, row):
    assert lines(row(verdict="error", raised=True))[2].split()[-3:] == ["-", "-", "error"]


def test_the_last_line_is_short(lines, row, over):
    reasons = ["no CUDA: this machine has no NVIDIA device"] * 3 + ["analytic scenario"] * 5
    found = lines(*(row(f"a{n}", not_measured=why) for n, why in enumerate(reasons)), over("b"))

    assert found[-1] == "9 estimated (8 within, 1 over), 0 measured (no CUDA)"
    assert not [line for line in found if line.startswith("not measured")]


def test_where_some_were_measured_the_reasons_of_the_others_are_listed(lines, row, figure):
    measured = row("a", measurements=[figure({"kind": "measured"})], not_measured="")
    found = lines(measured, row("b", not_measured="over budget already"))

    assert found[-2:] == [
        "not measured: 1 (over budget already)",
        "2 estimated (2 within, 0 over), 1 measured, 1 not measured",
    ]
