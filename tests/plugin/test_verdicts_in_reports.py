"""Within passes, over is an ordinary failure: on the terminal, in JUnit, in report.json, with xdist too."""

import os

from pytest_membudget.devices.torch_build.installed import workers_torch

GIB = 2**30

FILES = {
    "processes": "",  # what a test makes is removed, and what it appends to is not
    "conftest.py": """
        import os

        import pytest

        def record(what):
            with open("processes", "a") as file:
                print(what, os.getpid(), file=file)

        @pytest.fixture
        def trace_of_setup():
            record("fixture")

        def pytest_sessionstart(session):
            record("session")
        """,
    "test_budgets.py": """
        import pytest
        import torch
        from conftest import record
        from torch import nn

        class Table(nn.Module):
            def __init__(self):
                super().__init__()
                self.rows = nn.Parameter(torch.empty(45, 2**28, device="cuda"))  # 45 GiB

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = Table()

            def forward(self, tokens):
                return tokens

        @pytest.mark.mem_budget(gib=60)
        def test_within(trace_of_setup):
            record("body")
            Model()(torch.empty(15, 2**27, device="cuda"))  # 45 and 7.5 GiB

        @pytest.mark.mem_budget(
            gib=40,
        )
        def test_over(trace_of_setup):
            record("body")
            Model()(torch.empty(15, 2**27, device="cuda"))  # 45 and 7.5 GiB

        @pytest.mark.mem_budget(gib=1)
        def test_nothing_on_cuda():
            torch.empty(2**20)

        def test_plain():
            pass
        """,
}
OPERATOR = "aten::empty.memory_format"


def test_within_passes_and_over_fails_and_neither_is_an_error(run):
    assert run.outcomes == {
        "test_within": "passed",
        "test_over": "failed",
        "test_nothing_on_cuda": "failed",
        "test_plain": "passed",
    }
    assert run.status == 1


def test_the_holders_are_listed_with_module_and_line_the_largest_first(run):
    told = run.text("test_over").partition("What holds it:\n")[2].splitlines()

    assert told[0] == "  45.00 GiB  parameters of table.rows"
    assert told[1].startswith(f"      test_budgets.py:9 ({OPERATOR}): ")
    assert told[2] == "  7.50 GiB  inputs"
    assert told[3].startswith(f"      test_budgets.py:29 ({OPERATOR}): ")


def test_the_text_shows_no_line_of_this_plugin(run):
    assert "pytest_membudget" not in run.text("test_over")


def test_fixtures_and_bodies_run_in_other_processes_than_the_session(run):
    def processes(kind):
        lines = map(str.split, (run.folder / "processes").read_text().splitlines())
        return {number for what, number in lines if what == kind}

    assert len(processes("fixture")) == 2  # test_within and test_over, each once
    assert processes("fixture") == processes("body")
    assert not processes("fixture") & processes("session")


def test_the_rows_of_the_report_hold_the_exact_bytes(run):
    estimate = run.rows["test_over"]["estimates"][0]

    assert estimate["peak"]["allocated"] == 52 * GIB + GIB // 2
    assert estimate["components"]["parameters"] == 45 * GIB
    assert sum(estimate["components"].values()) == estimate["peak"]["allocated"]


def test_header_and_report_name_the_stand_in_and_the_torch_of_workers(run):
    (header,) = [line for line in run.lines if line.startswith("membudget: estimates on a ")]
    version = workers_torch(os.environ).version

    assert header.startswith("membudget: estimates on a stand-in H100-80GB ")
    assert f"by the code of torch {version}" in header
    assert run.report["torch"] == version
    assert run.rows["test_within"]["estimates"][0]["device"] == "stand-in"


def test_required_measuring_without_a_card_fails_with_the_reason(session_of):
    run = session_of(FILES, "--membudget", "--membudget-measure=require", "-k", "test_within")

    assert run.outcomes == {"test_within": "failed"}
    assert "not measured: no CUDA: " in run.message("test_within")
    assert run.rows["test_within"]["verdict"] == "error"
