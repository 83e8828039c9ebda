"""``record_property`` in a body that runs in the worker reaches the session's own reports."""

import xml.etree.ElementTree as ElementTree

import pytest

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_records(record_property):
            import torch

            record_property("before", "set up")
            kept = hold(0.5)
            record_property("held_bytes", torch.cuda.memory_allocated())
            record_property("device", torch.device("cuda"))
            record_property("ratio", float("nan"))

        @pytest.mark.mem_budget(gib=1)
        def test_fails_later(record_property):
            kept = hold(0.25)
            record_property("got_so_far", 1)
            raise ValueError("none")

        @pytest.mark.mem_budget(gib=1)
        def test_records_nothing():
            kept = hold(0.5)
        """,
}


@pytest.fixture(scope="module")
def run(session_of, both_ways):
    return session_of(
        FILES, "--membudget", "-o", "junit_family=xunit1", "--junitxml=properties.xml", *both_ways
    )


def properties_of(run, name):
    return dict(run.rows[name]["properties"])


def test_the_row_has_them_with_what_the_device_said(run):
    assert properties_of(run, "test_records") == {
        "before": "set up", "held_bytes": 2**29, "device": "cuda", "ratio": "nan",
    }  # fmt: skip


def test_those_of_a_test_that_raises_are_kept(run):
    assert properties_of(run, "test_fails_later") == {"got_so_far": 1}


def test_a_test_that_records_nothing_has_none(run):
    assert properties_of(run, "test_records_nothing") == {}


def test_junit_has_each_once(run):
    cases = {
        case.get("name"): case for case in ElementTree.parse(run.folder / "properties.xml").iter("testcase")
    }
    found = [(entry.get("name"), entry.get("value")) for entry in cases["test_records"].iter("property")]

    assert ("held_bytes", str(2**29)) in found
    assert len([name for name, _ in found if not name.startswith("membudget.")]) == 4


def test_junit_has_the_figures_of_the_estimate_once(run):
    cases = {
        case.get("name"): case for case in ElementTree.parse(run.folder / "properties.xml").iter("testcase")
    }
    found = [(entry.get("name"), entry.get("value")) for entry in cases["test_records"].iter("property")]

    assert found.count(("membudget.estimated_bytes", str(run.allocated("test_records")))) == 1
    assert found.count(("membudget.budget_bytes", str(2**30))) == 1
