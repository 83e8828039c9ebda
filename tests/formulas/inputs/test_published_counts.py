"""Parameters of published models, all and active, against the figures that their makers give."""

from dataclasses import replace

import pytest

from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.parameters import inventory_of, parameter_count
from tests.formulas.inputs.published_models import PUBLISHED


def published(name):
    return read_config(PUBLISHED[name][0])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_published_parameters(name):
    config, parameters, _ = PUBLISHED[name]

    assert parameter_count(read_config(config)) == parameters


def test_deepseek_v3s_layer_for_further_tokens_has_its_published_parameters():
    # README_WEIGHTS.md: 11.5B of its own, beside the shared embedding and head: that is the layer without its
    # projection from twice the hidden size. With it the checkpoint's 684.5B (hub, safetensors) come about:
    # 671.03B, the second copies of embedding and head, and 0.04B of fp8 scales.
    model = published("DeepSeek-V3")
    with_prediction = replace(model, prediction_layers=1)

    added = parameter_count(with_prediction) - parameter_count(model)

    assert round((added - 2 * 7168 * 7168) / 1e9, 1) == 11.5
    assert round((671_026_419_200 + added + 2 * 129280 * 7168) / 1e9, 1) == 684.5


def test_experts_hold_the_same_parameters_together_and_apart():
    for name in ("Mixtral-8x7B", "gpt-oss-20b", "DeepSeek-V3"):
        model = published(name)
        together, apart = inventory_of(model, experts="stacked"), inventory_of(model, experts="separate")

        assert together.elements == apart.elements
        assert together != apart
