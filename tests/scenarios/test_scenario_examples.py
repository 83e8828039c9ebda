"""The example's budgets: all of them hold, and what can be told by hand is what they say."""

from pathlib import Path

import pytest

from pytest_membudget.budgets.verdict import WITHIN
from pytest_membudget.formulas.parameters import parameter_count
from pytest_membudget.scenarios.estimating import AnalyticEstimator
from pytest_membudget.scenarios.grid import points_of
from pytest_membudget.scenarios.jobs import read_scenario
from pytest_membudget.scenarios.reading import read_entries
from tests.scenarios.conftest import scenario_test

FILE = Path(__file__).parents[2] / "examples" / "budgets.membudget.yaml"
POINTS = {point.name: point for entry in read_entries(FILE, FILE.name) for point in points_of(entry)}
SETTINGS = {"gpu": None, "metric": "allocated"}

#: parameters by the safetensors indices that the models' cards on huggingface.co show
PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-3b": 3_212_749_824,
    "deepseek-v3": 671_026_419_200,  # without its MTP module; 671B in arXiv:2412.19437
}


@pytest.mark.parametrize("point", POINTS.values(), ids=list(POINTS))
def test_each_budget_holds(point):
    estimate = AnalyticEstimator(SETTINGS).estimate(scenario_test(point, FILE))

    assert estimate.verdict == WITHIN, estimate.reason
    assert estimate.budget is not None


@pytest.mark.parametrize("point", POINTS.values(), ids=list(POINTS))
def test_the_configurations_are_the_published_models(point):
    job = read_scenario(point, FILE.parent, SETTINGS).job

    for model in filter(None, (job.model, job.teacher)):
        assert parameter_count(model) == PUBLISHED[model.name]


def components_of(name):
    estimate = AnalyticEstimator(SETTINGS).estimate(scenario_test(POINTS[name], FILE))
    return estimate.estimates[0].components


def test_fsdp_shares_out_adams_states():
    states = components_of("llama3-8b-fsdp2[checkpointing=full-gib=32]")["optimizer_states"]

    # two fp32 moments over 8 GPUs, and fused Adam's step counters: 4 bytes for each of its 291 tensors
    assert states == PUBLISHED["llama-3-8b"] * 2 * 4 // 8 + 291 * 4


def test_a_teacher_is_frozen_parameters_in_bf16():
    components = components_of("llama3-8b-into-3b")

    assert components["frozen_parameters"] == PUBLISHED["llama-3-8b"] * 2
    assert components["parameters"] == PUBLISHED["llama-3.2-3b"] * 2
    assert components["optimizer_states"] == PUBLISHED["llama-3.2-3b"] * 4


def test_a_quantised_base_takes_half_a_byte_a_weight_and_its_scales():
    frozen = components_of("llama3-70b-qlora")["frozen_parameters"]
    # linears of 80 layers: q and o, k and v, gate, up and down; 16-bit: embedding, head, 161 norms
    linears = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
    others = PUBLISHED["llama-3-70b"] - linears
    scales = linears / 64 + linears / 64 / 256 * 4  # a byte for 64 weights, and fp32 for 256 of those

    assert frozen == pytest.approx(linears / 2 + scales + others * 2, rel=1e-4)
