"""Scenarios over their budgets, run and by formulas, say what would lower them; one between is undecided."""

import json

import pytest

from pytest_membudget.formulas.changes import knobs_for
from pytest_membudget.formulas.margins import MARGINS
from pytest_membudget.scenarios.job import Job, Model
from pytest_membudget.units import GIB, gib_text

MODEL = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 4, "vocab_size": 8000,
}  # fmt: skip
JOB = Job(Model("config", "config", json.dumps(MODEL)), "formulas", sequence=512)
FILES = {
    "jobs.membudget.yaml": f"""
        defaults:
          model: {{config: {json.dumps(MODEL)}}}
          sequence: 512
        budgets:
          - {{name: by-formulas, implementation: formulas, gib: 0.1}}
          - {{name: run, implementation: plain, gib: 0.1}}
          - {{name: between, implementation: formulas, gib: GIB}}
        """
}


@pytest.fixture(scope="module")
def run(session_of):
    from pytest_membudget.formulas.changes import peak_bytes_of

    gib = peak_bytes_of(JOB) * (1 + MARGINS["one GPU"].allocated / 2) / GIB
    files = {name: text.replace("GIB", f"{gib:.6f}") for name, text in FILES.items()}
    return session_of(files, "--membudget", "--membudget-report", "out")


def test_by_formulas_it_lists_the_knobs_with_their_figures(run):
    row = run.rows["by-formulas"]

    assert row["verdict"] == "over"
    for knob in knobs_for(JOB, GIB // 10):
        assert (
            f"{gib_text(knob.peak_bytes)}  {'fits' if knob.fits else '    '}  {knob.name}" in row["details"]
        )
    assert "by formulas" in row["details"]


def test_a_run_lists_what_the_arithmetic_says_that_they_save(run):
    row = run.rows["run"]
    figure = row["estimates"][0]

    assert (row["verdict"], figure["kind"], figure["margin"]) == ("over", "traced", 0)
    knobs = {knob.name: knob for knob in knobs_for(JOB, GIB // 10, figure["peak"]["allocated"])}
    assert gib_text(knobs["8-bit optimizer states"].peak_bytes) in row["details"]


def test_one_between_figure_and_margin_is_undecided(run):
    row = run.rows["between"]

    assert row["verdict"] == "undecided"
    assert row["estimates"][0]["margin"] == MARGINS["one GPU"].allocated
    assert "1 undecided" in run.lines[-1]
