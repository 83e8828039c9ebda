"""What a scenario over its budget is told to do."""

import textwrap

import pytest

from pytest_membudget.scenarios.estimating import AnalyticEstimator
from tests.scenarios.conftest import scenario_test

LLAMA = (
    "{config: {model_type: llama, hidden_size: 1024, intermediate_size: 4096, num_hidden_layers: 8, "
    "num_attention_heads: 16, num_key_value_heads: 16, vocab_size: 32000}}"
)


@pytest.fixture
def told(folder):
    """``told(fields)``: verdict and details of a budget for a model of 0.2 billion parameters."""

    def estimate(fields):
        body = textwrap.indent(textwrap.dedent(fields).strip("\n"), "    ")
        text = f"budgets:\n  - name: one\n    model: {LLAMA}\n    sequence: 1024\n{body}\n"
        defaults = {"gpu": None, "metric": "allocated"}
        found = AnalyticEstimator(defaults).estimate(scenario_test(folder.points(text)["one"], folder.file))
        return found.verdict, found.details

    return estimate


def test_an_over_budget_scenario_names_the_knobs_cheapest_first(told):
    verdict, details = told("gib: 1\nmicro_batch: 8")

    assert verdict == "over"
    assert details.startswith("What would lower it, the cheapest in speed first:")
    names = ["loss in 8 chunks", "8-bit optimizer states", "micro-batch 4", "full activation checkpointing"]
    places = [details.index(name) for name in names]
    assert places == sorted(places)
    assert details.endswith("The largest micro-batch that fits as it is: none")


def test_the_largest_micro_batch_that_fits_is_one_that_fits(told):
    _, details = told("gib: 4\nmicro_batch: 32")
    most = int(details.rpartition(" ")[2])

    assert 1 <= most < 32
    assert told(f"gib: 4\nmicro_batch: {most}")[0] == "within"
    assert told(f"gib: 4\nmicro_batch: {most + 1}")[0] == "over"


def test_a_knob_that_is_said_to_fit_does(told):
    _, details = told("gib: 5\nmicro_batch: 8")

    assert "fits  full activation checkpointing" in details
    assert told("gib: 5\nmicro_batch: 8\ncheckpointing: full")[0] == "within"


def test_a_scenario_within_its_budget_gets_no_advice(told):
    assert told("gib: 64") == ("within", "")


def test_of_a_file_with_many_too_large_ones_the_first_get_advice(folder):
    text = (
        f"budgets:\n  - {{name: one, gib: 0.1, model: {LLAMA}, grid: {{sequence: {list(range(64, 94))}}}}}\n"
    )
    estimator = AnalyticEstimator({"gpu": None, "metric": "allocated"})
    found = [estimator.estimate(scenario_test(point, folder.file)) for point in folder.points(text).values()]

    assert {estimate.verdict for estimate in found} == {"over"}
    assert [bool(estimate.details) for estimate in found] == [True] * 20 + [False] * 10
