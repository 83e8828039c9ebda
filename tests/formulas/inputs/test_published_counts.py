"""Parameters of published models, all and active, against the figures that their makers give."""

from dataclasses import replace

import pytest

from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.parameters import active_parameter_count, inventory_of, parameter_count
from tests.formulas.inputs.published_models import PUBLISHED


def published(name):
    return read_config(PUBLISHED[name][0])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_published_parameters(name):
    config, parameters, _ = PUBLISHED[name]

    assert parameter_count(read_config(config)) == parameters


@pytest.mark.parametrize(
    ("name", "billions", "counts_embedding"),
    [
        ("Mixtral-8x7B", 12.9, True),  # arXiv 2401.04088: 13B active; hub: 12.9B
        ("Qwen3-30B-A3B", 3.4, True),  # arXiv 2505.09388 and the hub say 3.3B, cut off
        ("Qwen1.5-MoE-A2.7B", 2.7, True),  # its name
        ("DeepSeek-V2-Lite", 2.5, False),  # hub: 2.4B, cut off
        ("DeepSeek-V3", 36.6, False),  # README_WEIGHTS.md: 36.6B, with 0.9B for the head (commit 32950e4)
        (
            "gpt-oss-120b",
            5.1,
            False,
        ),  # arXiv 2508.10925, table 1: 5.13B, with the head, without the embedding
        ("gpt-oss-20b", 3.6, False),  # the same: 3.61B
        ("Llama-4-Scout", 17.2, True),  # its name: 17B
    ],
)
def test_active_parameters_are_those_that_the_makers_count(name, billions, counts_embedding):
    active = active_parameter_count(published(name), counts_embedding=counts_embedding)

    assert round(active / 1e9, 1) == billions


def test_deepseek_v3_has_671_billion_parameters_and_37_active():
    model = published("DeepSeek-V3")

    # by hand: what a routed expert has, 3 x 7168 x 2048, for 58 layers of 256 of which 8 are chosen
    idle = 58 * (256 - 8) * 3 * 7168 * 2048
    assert parameter_count(model) == 671_026_419_200
    assert active_parameter_count(model) == 671_026_419_200 - idle == 37_552_297_472
    assert round(active_parameter_count(model, counts_embedding=False) / 1e9) == 37


def test_deepseek_v3s_layer_for_further_tokens_has_its_published_parameters():
    # README_WEIGHTS.md: 11.5B of its own, beside the shared embedding and head: that is the layer without its
    # projection from twice the hidden size. With it the checkpoint's 684.5B (hub, safetensors) come about:
    # 671.03B, the second copies of embedding and head, and 0.04B of fp8 scales.
    model = published("DeepSeek-V3")
    with_prediction = replace(model, prediction_layers=1)

    added = parameter_count(with_prediction) - parameter_count(model)

    assert round((added - 2 * 7168 * 7168) / 1e9, 1) == 11.5
    assert round((671_026_419_200 + added + 2 * 129280 * 7168) / 1e9, 1) == 684.5
    assert active_parameter_count(with_prediction) - active_parameter_count(model) < 1e9


def test_a_dense_models_parameters_are_all_active():
    model = published("Llama-3-8B")

    assert active_parameter_count(model) == parameter_count(model)


def test_the_table_of_a_tied_embedding_is_the_head_and_so_active():
    model = published("Llama-3.2-1B")

    assert active_parameter_count(model, counts_embedding=False) == parameter_count(model)


def test_an_untied_embedding_can_be_left_out_of_the_active_ones():
    model = published("Llama-3-8B")

    without = active_parameter_count(model, counts_embedding=False)

    assert parameter_count(model) - without == 128256 * 4096


def test_experts_hold_the_same_parameters_together_and_apart():
    for name in ("Mixtral-8x7B", "gpt-oss-20b", "DeepSeek-V3"):
        model = published(name)
        together, apart = inventory_of(model, experts="stacked"), inventory_of(model, experts="separate")

        assert together.elements == apart.elements
        assert together != apart
