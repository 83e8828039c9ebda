"""Measuring on one card: the measuring device itself, on PyTorch's own CUDA code and allocator.

A body finds out whether it is measured, as no user's would, to make the figures differ.
"""

import pytest

from tests.plugin.bodies import source

pytestmark = pytest.mark.slow

MIB = 2**20

HEAD = """\
import os
import pytest
from holding import hold

budget = pytest.mark.mem_budget(gib=1)

def is_measured():
    return "CUDA_VISIBLE_DEVICES" in os.environ  # which a worker for estimates has not

"""
TWO_STEPS = """\
import torch
layers = torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096)
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(64, 4096, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MARKS = {
    "with_the_context": "pytest.mark.mem_budget(gib=1, metric='device')",
    "takes_a_little_more": "pytest.mark.mem_budget(gib=2)",
    "needs_a_larger_card": "pytest.mark.mem_budget(gib=1, gpu='H200')",
}
BODIES = source(
    {
        "two_steps": TWO_STEPS,
        "with_the_context": "kept = hold(0.25)",
        "takes_more_when_measured": "kept = hold(1.25 if is_measured() else 0.5)",
        "takes_a_little_more": "kept = hold(0.6 if is_measured() else 0.5)",
        "estimated_over": "kept = hold(1.5)",
        "runs_out_of_memory_when_measured": "kept = hold(90 if is_measured() else 0.5)",
        "raises_when_measured": (
            "kept = hold(0.5)\nif is_measured():\n    raise ValueError('not on this card')"
        ),
        "needs_a_larger_card": "kept = hold(0.5)",
    },
    HEAD,
    MARKS,
)


@pytest.fixture(scope="module")
def run(measured_session):
    return measured_session({"test_budgets.py": BODIES}, "--membudget-measure=auto")


def both(run, name):
    """The estimate of a test and its measurement."""
    row = run.rows[name]
    (estimate,), (measured,) = row["estimates"], row["measurements"]
    return estimate, measured


def test_what_is_measured_passes(run):
    estimate, measured = both(run, "test_two_steps")

    assert run.outcomes["test_two_steps"] == "passed", run.out
    assert (estimate["kind"], estimate["device"]) == ("traced", "stand-in")
    assert (measured["kind"], measured["device"]) == ("measured", "NVIDIA A100-SXM4-80GB")
    assert run.rows["test_two_steps"]["measurements"][0]["device"] == "NVIDIA A100-SXM4-80GB"


def test_estimate_and_measurement_are_the_same_to_the_byte(run):
    estimate, measured = both(run, "test_two_steps")

    assert measured["peak"] == estimate["peak"]
    assert measured["components"] == estimate["components"]
    assert measured["holders"] == estimate["holders"]
    # two layers of 4,096 x 4,096 and 4,096 numbers of 4 bytes, and AdamW's two moments of each; its steps are
    # counted on the host
    parameters = 2 * (4096 * 4096 + 4096) * 4
    assert measured["components"]["parameters"] == parameters
    assert measured["components"]["optimizer_states"] == 2 * parameters


def test_what_is_outside_the_allocator_is_measured_as_the_context(run):
    estimate, measured = both(run, "test_with_the_context")

    # 503 MiB: context_bytes of the A100-80GB in gpus.yaml
    assert measured["components"]["context"] == 503 * MIB
    assert measured["peak"]["device"] == (256 + 503) * MIB
    assert measured["components"] == estimate["components"]


@pytest.mark.parametrize(
    ("name", "reason", "text"),
    [
        # 0.5 of 1.25 GiB; both figures are shown component by component
        (
            "takes_more",
            "0.25 GiB over its budget of 1 GiB",
            ["estimate     measured  ratio", "inputs", " 0.400"],
        ),
        ("runs_out_of_memory", "CUDA out of memory. Tried to allocate 90.00 GiB.", []),
        ("raises", "ValueError in call", ["not on this card"]),
    ],
)
def test_what_ends_otherwise_on_the_card_fails_with_its_reason(run, name, reason, text):
    name = f"test_{name}_when_measured"

    assert run.outcomes[name] == "failed"
    assert "measured on CUDA: " in run.message(name)
    assert reason in run.rows[name]["reason"]
    assert all(part in run.text(name) for part in text)


def test_a_figure_over_the_disagreement_is_reported_and_passes(run):
    told = [line for line in run.summary if line.startswith("disagreement: ")]

    assert run.outcomes["test_takes_a_little_more"] == "passed"
    assert any("estimate 0.50 GiB, measured 0.60 GiB, ratio 0.833" in line for line in told)
    assert not any("test_two_steps" in line for line in told)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_estimated_over", "over budget already"),
        ("test_needs_a_larger_card", "the card here, NVIDIA A100-SXM4-80GB, is smaller than gpu='H200'"),
    ],
)
def test_what_need_not_or_cannot_be_measured_is_not(run, name, reason):
    assert run.rows[name]["not_measured"] == reason
    assert run.rows[name]["measurements"] == []


def test_the_summary_counts_what_was_measured_and_why_the_rest_was_not_and_has_the_ratio(run):
    line = next(line for line in run.summary if " measured" in line and " estimated" in line)
    assert "6 measured" in line
    assert "2 not measured" in line
    assert "not measured: 1 (over budget already)" in run.summary
    assert any(line.startswith("not measured: 1 (the card here") for line in run.summary)

    row = next(line for line in run.summary if "test_takes_more" in line and "GiB" in line)
    assert "1.25 GiB" in row
    assert "0.400" in row


def test_measuring_can_be_switched_off(measured_session):
    files = {"test_budgets.py": BODIES}
    run = measured_session(files, "--membudget-measure=off", "-k", "takes_more")

    assert run.outcomes["test_takes_more_when_measured"] == "passed"
    assert any(line.endswith(", 0 measured (switched off)") for line in run.summary)
