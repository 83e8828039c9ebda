"""The program: a report in, a table and an exit status out."""

import json
from pathlib import Path

import pytest

from benchmarks import accuracy, accuracy_runs
from benchmarks.accuracy_page import accuracy_page, accuracy_summary
from benchmarks.accuracy_runs import CasesRun
from benchmarks.comparison import Comparison
from benchmarks.published_figures import Published, read_published

FIGURES = """
- {id: small, test: "test_x.py::test_it", unit: MiB, measured: {allocated: 100}, explained: EXPLAINED}
"""
ROW = {
    "nodeid": "tests/test_x.py::test_it[small]", "verdict": "within", "reason": "", "properties": [],
}  # fmt: skip


def peaks(mib):
    names = ("allocated", "active", "reserved", "device")
    return {"rank": 0, "peak": dict.fromkeys(names, mib * 2**20)}


@pytest.fixture
def report(tmp_path):
    """``report(estimate, measured)`` writes a report.json of one test; MiB."""

    def write(estimate, *measured):
        row = {
            **ROW, "estimates": [peaks(estimate)], "measurements": [peaks(size) for size in measured],
        }  # fmt: skip
        path = tmp_path / "report.json"
        path.write_text(json.dumps({"tests": [row], "torch": {"version": "2.13.0"}}))
        return str(path)

    return write


@pytest.fixture
def figures(tmp_path):
    """``figures(explained)`` writes a file of published figures."""

    def write(explained=""):
        path = tmp_path / "figures.yaml"
        path.write_text(FIGURES.replace("EXPLAINED", repr(explained)))
        return str(path)

    return write


def test_a_report_is_held_against_its_own_measurements(report, capsys):
    status = accuracy.main(["--report", report(199, 200)])

    said = capsys.readouterr().out
    assert status == 0
    assert "| 0.9950 |" in said
    assert "2 figures: median ratio 0.9950, worst 0.9950; under 100%, equal 0%, over 0%" in said


def test_a_report_is_held_against_figures_of_the_users_own(report, figures, capsys):
    assert accuracy.main(["--report", report(100), "--published", figures()]) == 0
    assert "| small | allocated | 100.000 MiB | 100.000 MiB | 1.0000 |" in capsys.readouterr().out


def test_a_difference_without_a_cause_fails(report, figures, capsys):
    assert accuracy.main(["--report", report(102), "--published", figures()]) == 1
    assert "no cause is named" in capsys.readouterr().out


def test_a_difference_with_a_cause_does_not(report, figures):
    assert accuracy.main(["--report", report(102), "--published", figures("cuDNN")]) == 0


def test_a_report_with_nothing_to_compare_fails(report, capsys):
    assert accuracy.main(["--report", report(100)]) == 1
    assert "nothing to compare" in capsys.readouterr().err


def test_a_file_that_is_no_report_is_refused(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_text("{")

    assert accuracy.main(["--report", str(path)]) == 2
    assert capsys.readouterr().err.startswith("accuracy: ")


def figure(case, estimate, measured, explained=""):
    setup = ("some/repo", "A100")
    return Comparison(case, "losses", "allocated", estimate, measured, "B", explained, *setup)


RUN = CasesRun("2.13.0+cu130", "cuDNN 9.20", [])


def test_the_page_has_a_row_a_figure_and_what_was_left_out_with_the_reason():
    rows = [figure("a|b", 90, 100, "why\nso"), figure("c", 100, 100)]
    left_out = Published("d", "losses", "r", "", "", "", "", "B", {}, not_recreated="needs 8 GPUs")

    page = accuracy_page(rows, [left_out], ["e: no figure"], RUN)

    assert "with torch 2.13.0+cu130; convolutions are planned by cuDNN 9.20." in page
    assert "| losses | allocated | 2 | 0.9500 | 0.9000 | 50% | 50% | 0% |" in page
    assert "| case | metric | estimate | measured | ratio | what explains the rest |" in page
    assert "| a\\|b | allocated | 90.000 B | 100.000 B | 0.9000 | why so |" in page
    assert "- needs 8 GPUs: d" in page
    assert "- e: no figure" in page
    assert "- a|b, c: some/repo (A100)" in page


def test_a_run_that_is_kept_is_not_run_again(tmp_path, figures, monkeypatch):
    (tmp_path / "figures.json").write_text(json.dumps({
        "torch": "2.13.0", "cudnn": "cuDNN 9.20",
        "tests": [{**ROW, "estimates": [peaks(101)]}],
    }))  # fmt: skip
    monkeypatch.setattr(accuracy_runs.subprocess, "run", None)

    run = accuracy_runs.cases_run(read_published([Path(figures())]), 1, tmp_path)

    assert (run.torch, run.cudnn) == ("2.13.0", "cuDNN 9.20")
    assert [row["estimates"] for row in run.rows] == [[peaks(101)]]


# The summary, and the results that it is made of


def test_the_summary_has_a_row_for_each_family_and_all():
    summary = accuracy_summary([figure("a", 100, 100), figure("b", 90, 100)], RUN)

    assert summary.startswith("Run with torch 2.13.0+cu130, cuDNN 9.20.\n")
    assert "| family | figures | median ratio | worst ratio | below | within 0.1% | above |" in summary
    assert "| losses | 2 | 0.9500 | 0.9000 | 50% | 50% | 0% |" in summary
    assert "| **all** | 2 | 0.9500 | 0.9000 | 50% | 50% | 0% |" in summary
