"""Which failures list changes that were tried; estimates and trials are given."""

import json
import os

import pytest

from pytest_membudget.reporting.files.json_file import torch_of
from tests.gate.given import ALONE, ASKED, XDIST, given_files

TAKES = 'takes(3, tried={"Adam(..., fused=True)": 2.75, "half as much": 1.5, "next to nothing": 2.995})'
FILES = given_files({
    "test_over": (TAKES, "mem_budget(gib=2)"),
    "test_expected": (TAKES, "xfail", "mem_budget(gib=2)"),
    "test_within": (TAKES, "mem_budget(gib=4)"),
})  # fmt: skip
TITLE = "What reduces it from 3.00 GiB (each change was run):"
LISTED = [
    "      1.50 GiB   -1.50 GiB  half as much, within",
    "      2.75 GiB   -0.25 GiB  Adam(..., fused=True)",
]


def base_row(row, nodeid, gib):
    """A row of a report in which the test took ``gib``, all of it inputs."""
    size = int(gib * 2**30)
    report = row(nodeid)
    figure = report["estimates"][0]
    figure.update(
        peak=dict.fromkeys(figure["peak"], size), components={"inputs": size}, holders=[], timeline=None
    )
    return report


def section_of(text):
    lines = text.partition(f"{TITLE}\n")[2].splitlines()
    return [line for line in lines[: lines.index("") if "" in lines else None] if line.startswith("  ")]


@pytest.mark.parametrize("xdist", [(), XDIST], ids=["alone", "xdist"])
def test_a_failure_lists_the_trials_by_what_they_save(session_of, xdist):
    run = session_of(FILES, *ASKED, *xdist, env=ALONE)

    assert section_of(run.text("test_over"))[:2] == LISTED
    assert "next to nothing" not in run.text("test_over")
    assert [*run.rows["test_over"]["advice"]["trials"].values()] == [
        1.5 * 2**30,
        2.75 * 2**30,
    ]
    assert {name for name, row in run.rows.items() if row["advice"]} == {"test_over"}
    assert run.outcomes["test_within"] == "passed"


def test_where_growth_is_the_failure_nothing_is_tried(session_of, raw, row):
    """At the base it took 1.5 GiB, half of what it takes now."""
    base = raw(base_row(row, "test_budgets.py::test_over", 1.5), torch=torch_of(os.environ))
    files = {
        **FILES,
        "base.json": json.dumps(base),
        "test_budgets.py": FILES["test_budgets.py"].replace("gib=2", 'gib=2, max_growth="1%"'),
    }

    run = session_of(files, *ASKED, "--membudget-compare=base.json", env=ALONE)

    found = run.rows["test_over"]["comparison"]
    assert found["bytes"] - found["base"]["bytes"] == 1.5 * 2**30
    assert run.outcomes["test_over"] == "failed"
    assert run.rows["test_over"]["advice"] is None


def test_what_is_excused_needs_no_advice(session_of):
    entry = "{bytes: 4294967296, reason: for a while, until: 9999-12-31}"
    files = {
        **FILES,
        "membudget.lock.yaml": f"version: 1\ntests:\n  test_budgets.py::test_over: {entry}\n",
    }

    run = session_of(files, *ASKED, env=ALONE)

    assert run.outcomes["test_over"] == "passed"
    assert run.rows["test_over"]["advice"] is None


def test_the_setting_switches_it_off_too(session_of):
    files = {**FILES, "pyproject.toml": '[tool.membudget]\nadvice = "off"\n'}

    assert session_of(files, *ASKED, env=ALONE).rows["test_over"]["advice"] is None
