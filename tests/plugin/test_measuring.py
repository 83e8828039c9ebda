"""What estimates are made on, and measuring beside it, on machines without a GPU.

With one: tests/devices/stand_in/measured.
"""

import os

import pytest

from pytest_membudget.devices.torch_build.installed import workers_torch

FILES = {
    "test_budgets.py": """
        import pytest
        from holding import hold

        @pytest.mark.mem_budget(gib=1)
        def test_it():
            kept = hold(0.5)
        """
}


@pytest.fixture(scope="module")
def without(session_of):
    return session_of(FILES, "--membudget")


def test_without_cuda_the_estimate_decides_and_the_summary_says_so(without):
    assert without.outcomes["test_it"] == "passed"
    assert without.rows["test_it"]["measurements"] == []
    assert any(line.endswith(", 0 measured (no CUDA)") for line in without.summary)


def test_required_measuring_without_cuda_fails_with_the_reason(session_of):
    run = session_of(FILES, "--membudget", "--membudget-measure=require")

    assert run.outcomes["test_it"] == "failed"
    assert "not measured: no CUDA: " in run.message("test_it")
    assert run.rows["test_it"]["verdict"] == "error"


def test_header_and_report_name_the_stand_in_and_the_torch_of_workers(without):
    (header,) = [line for line in without.lines if line.startswith("membudget: estimates on a ")]
    version = workers_torch(os.environ).version

    assert header.startswith("membudget: estimates on a stand-in H100-80GB ")
    assert f"by the code of torch {version}" in header
    assert without.report["torch"]["version"] == version
    (figure,) = without.rows["test_it"]["estimates"]
    assert (figure["device"], figure["peak"]["allocated_bytes"]) == ("stand-in", 2**29)
