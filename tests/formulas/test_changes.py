"""What would make a job fit, each change with its figure by formulas."""

import json
from dataclasses import replace

from pytest_membudget.formulas.changes import knobs_for, largest_micro_batch, peak_bytes_of, what_now
from pytest_membudget.scenarios.job import Checkpointing, Job, Model, Optimizer
from pytest_membudget.units import GIB

LLAMA = Job(Model("torchtitan", "8B", json.dumps("8B")), "formulas", micro_batch=2, sequence=8192)


def by_name(knobs):
    return {knob.name: knob for knob in knobs}


def test_each_knob_that_lowers_the_peak_has_its_figure():
    found = by_name(knobs_for(LLAMA, 80 * GIB))

    assert {
        "loss in 8 chunks", "8-bit optimizer states", "micro-batch 1, accumulated 2 times",
        "full activation checkpointing", "2 GPUs", "CPU offload", "LoRA of rank 16",
    } <= found.keys()  # fmt: skip
    changed = replace(LLAMA, checkpointing=Checkpointing("full"))
    assert found["full activation checkpointing"].peak_bytes == peak_bytes_of(changed)


def test_where_the_step_is_the_peak_its_knobs_are_there():
    short = replace(LLAMA, micro_batch=1, sequence=128)
    found = by_name(knobs_for(short, 60 * GIB))

    assert found["fused=True"].peak_bytes == peak_bytes_of(
        replace(short, optimizer=Optimizer(implementation="fused"))
    )
    assert found["fused=True"].fits
    assert "optimizer step in backward" in found


def test_where_no_single_one_fits_those_that_keep_what_is_trained_are_taken_together():
    last = knobs_for(LLAMA, 40 * GIB)[-1]

    assert " + " in last.name
    assert last.fits


def test_a_change_of_a_run_is_what_the_arithmetic_says_that_it_saves():
    alone, of_run = knobs_for(LLAMA, 80 * GIB), knobs_for(LLAMA, 80 * GIB, peak_bytes_of(LLAMA) + GIB)

    shared = by_name(alone).keys() & by_name(of_run).keys()
    assert shared
    assert {by_name(of_run)[name].peak_bytes - by_name(alone)[name].peak_bytes for name in shared} == {GIB}


def test_the_largest_micro_batch_that_fits():
    most = largest_micro_batch(LLAMA, 160 * GIB)

    assert peak_bytes_of(replace(LLAMA, micro_batch=most)) <= 160 * GIB
    assert peak_bytes_of(replace(LLAMA, micro_batch=most + 1)) > 160 * GIB
    assert largest_micro_batch(LLAMA, GIB) == 0


def test_a_job_without_arithmetic_has_no_lines():
    job = replace(LLAMA, model=Model("torchtitan", "9B", json.dumps("9B")))

    assert what_now(job, GIB) == ""
    assert "by formulas" in what_now(LLAMA, GIB)
