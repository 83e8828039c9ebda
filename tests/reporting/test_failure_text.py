"""The text of a failed test: what stands in it adds up, and says what holds the memory."""

import re

import pytest

from pytest_membudget.reporting.failure import failure_text
from pytest_membudget.results.test_result import TestResult

MIB = 2**20
GIB = 2**30
UNITS = {"B": 1, "KiB": 2**10, "MiB": MIB, "GiB": GIB}


@pytest.fixture
def text(row, figure):
    """``text(changes)`` of a test over its budget whose figure has ``changes``."""

    def made(changes=None, **more):
        given = {"estimates": [figure(changes)], "rank": None, "host_bytes": None, "verdict": "over"}
        return failure_text(TestResult.from_json(row(**{**given, **more})))

    return made


def sizes_of(text):
    """Bytes by component, and the total, of the first table of ``text``."""
    rows = re.findall(r"^  (= )?(\w+) +([0-9.]+) (B|KiB|MiB|GiB)(?: +[0-9.]+%)?$", text, re.MULTILINE)
    found = {name: float(number) * UNITS[unit] for _, name, number, unit in rows}
    [total] = [name for sign, name, _, _ in rows if sign]
    return found, found.pop(total)


@pytest.mark.parametrize("metric", ["allocated", "reserved", "device"])
def test_every_component_is_told_and_they_add_up_to_the_total(text, metric):
    beyond = {"cached": GIB} if metric != "allocated" else {}
    beyond |= {"context": GIB} if metric == "device" else {}
    held = {"parameters": 3 * GIB, "activations": GIB - 64 * MIB, "rounding": 64 * MIB, **beyond}

    found, total = sizes_of(text({"metric": metric, "components": held}))

    assert found.keys() == held.keys()
    assert total == {"allocated": 4, "reserved": 5, "device": 6}[metric] * GIB
    assert sum(found.values()) == pytest.approx(total, rel=0.002)  # two digits each


def test_a_small_rounding_is_told_too(text):
    assert re.search(r"^  rounding +512 B +0\.0%$", text(), re.MULTILINE)


def test_changes_that_were_tried_are_listed_with_what_is_enough(text, advice):
    chunked = {"change": "chunked", "write": "steps.linear_cross_entropy", "bytes": 4 * GIB - 64 * MIB}
    more = {**advice, "trials": [*advice["trials"], chunked], "untried": ["half_batch"]}

    assert text(advice=more).partition("What reduces it")[2].splitlines()[:5] == [
        " from 4.00 GiB (each change was run):",
        "      3.00 GiB   -1.00 GiB  AdamW(..., fused=True), within",
        "      3.94 GiB   -64.0 MiB  steps.linear_cross_entropy",
        "  steps is pytest_membudget.steps",
        "  Not tried, the time limit was reached: half_batch",
    ]
    assert "What reduces it" not in text(advice={**advice, "trials": []})


def test_components_without_bytes_are_left_out(text):
    assert "buffers" not in text({"components.buffers": 0})


def test_it_begins_with_the_verdict_and_the_place_of_the_mark(text):
    lines = text().splitlines()

    assert lines[0] == "80% of its budget of 5 GiB"
    assert lines[1] == "tests/test_memory.py:12: mem_budget(gib=5)"


def test_what_was_taken_for_granted_and_what_is_not_modelled_is_told(text):
    said = text({"assumptions": ["a.py:1 reads a bool value"], "not_modelled": ["a.py:2 aten::gru"]})

    assert "a.py:1 reads a bool value" in said.partition("Taken for granted")[2]
    assert "a.py:2 aten::gru" in said.partition("Not modelled")[2]


def test_a_figure_without_holders_has_no_heading_for_them(text):
    assert "What holds it" in text()
    assert "What holds it" not in text({"holders": []})
    assert "\n\n\n" not in text({"holders": []})
    assert not text({"holders": []}).endswith("\n")
