"""Decoders by configuration, by shape and by Megatron-LM's arguments: their parameters, and what is
refused.
"""

import json

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.configs import read_config
from pytest_membudget.formulas.decoder import parameter_count
from pytest_membudget.formulas.ranks import Rank, layers_of_stages, parts_of
from pytest_membudget.formulas.shapes import read_shape
from pytest_membudget.formulas.sources import decoder_of
from pytest_membudget.scenarios.job import DataParallel, Degrees, Job, Model
from tests.formulas.published_models import PUBLISHED

SMALL = {"hidden": 8, "layers": 2, "heads": 2, "intermediate": 32, "vocab": 16}
#: query, key, value and output of 8 x 8, three blocks of 32 x 8, two norms; embedding, head, final norm
LAYER = 4 * 64 + 3 * 256 + 2 * 8
ENDS = 2 * 16 * 8 + 8


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_published_parameters(name):
    config, parameters, _ = PUBLISHED[name]

    assert parameter_count(read_config(config)) == parameters


@pytest.mark.parametrize(
    ("more", "parameters"),
    [
        ({}, 2 * LAYER + ENDS),
        ({"tied": True}, 2 * LAYER + ENDS - 16 * 8),
        ({"gated": False}, 2 * (LAYER - 256) + ENDS),
        ({"norm": "layer"}, 2 * (LAYER + 2 * 8) + ENDS + 8),
        ({"kv_heads": 1}, 2 * (LAYER - 2 * 32) + ENDS),
        ({"qkv_bias": True, "output_bias": True, "mlp_bias": True}, 2 * (LAYER + 4 * 8 + 2 * 32 + 8) + ENDS),
        ({"positions": 10}, 2 * LAYER + ENDS + 80),
        (  # one dense layer; one with 4 experts of 3 x 4 x 8, a router, a shared expert of 5
            {
                "experts": 4,
                "experts_per_token": 2,
                "expert_intermediate": 4,
                "dense_layers": 1,
                "shared_intermediate": 5,
            },
            LAYER + (LAYER - 3 * 256 + 4 * 96 + 4 * 8 + 3 * 40) + ENDS,
        ),
        (  # queries 8 x 2(2+1), narrow keys (3+1) x 8, their norm, 2(2+2) x 3, output 8 x 4
            {"kv_rank": 3, "rope_dim": 1, "nope_dim": 2, "value_dim": 2},
            2 * (LAYER - 256 + 48 + 32 + 3 + 24 + 32) + ENDS,
        ),
    ],
)
def test_a_shapes_parameters_by_hand(more, parameters):
    assert parameter_count(read_shape({**SMALL, **more})) == parameters


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"hiden": 4}, "model.shape.hiden is not known; did you mean hidden?"),
        ({"vocab": 0}, "model.shape: vocab is missing"),
        ({"layers": "two"}, "model.shape.layers is 'two'; write a whole number"),
        ({"norm": "batch"}, "model.shape.norm is 'batch'; write rms or layer"),
        ({"kv_heads": 3}, "model.shape.kv_heads is 3; write a number that divides the 2 heads"),
        ({"heads": 3}, "model.shape: 8 is no multiple of 3 heads; write head_dim"),
        ({"kv_rank": 3}, "model.shape: latent attention lacks rope_dim and nope_dim"),
        ({"experts": 4}, "model.shape: 4 experts need experts_per_token"),
        ({"intermediate": 0}, "model.shape: intermediate is missing"),
    ],
)
def test_a_mistake_in_a_shape_is_said(change, text):
    with pytest.raises(UsageMistake) as error:
        read_shape({**SMALL, **change})
    assert text in str(error.value)


def test_a_configuration_that_is_no_known_decoder_is_refused():
    with pytest.raises(UsageMistake, match=r"model_type 'lama' is no decoder .* did you mean llama\?"):
        read_config({"model_type": "lama"})


def test_of_a_model_of_text_and_images_the_text_is_read():
    text = {"num_hidden_layers": 2}

    whole = read_config({"model_type": "llama4", "text_config": text})

    assert whole == read_config({"model_type": "llama4_text", **text})


def megatron(**arguments):
    usual = {"num-layers": 2, "hidden-size": 8, "num-attention-heads": 2, "max-position-embeddings": 4}
    return Model("megatron", "m", json.dumps({**usual, **arguments}))


def test_megatrons_gpt_by_hand():
    """Biases, a norm's weight and bias; 50,257 rows padded to 128; a tied head."""
    layer = 4 * (64 + 8) + 2 * 256 + 32 + 8 + 4 * 8

    assert parameter_count(decoder_of(megatron())) == 2 * layer + 50304 * 8 + 4 * 8 + 16


@pytest.mark.parametrize(
    ("argument", "value"),
    [("pipeline-model-parallel-layout", "Et|L"), ("mtp-num-layers", 1), ("recompute-modules", "[mlp]")],
)
def test_what_megatron_does_and_formulas_do_not_know_is_refused(argument, value):
    with pytest.raises(UsageMistake, match=argument):
        decoder_of(megatron(**{argument: value}))


def test_torchtitans_flavors_are_metas_models():
    counts = {"8B": 8_030_261_248, "70B": 70_553_706_496, "405B": 405_853_388_800}

    for flavor, count in counts.items():
        assert parameter_count(decoder_of(Model("torchtitan", flavor, json.dumps(flavor)))) == count


# Parts of ranks


def elements(stage=0, *, model=None, **degrees):
    job = Job(
        model or Model("shape", "m", json.dumps({**SMALL, "layers": 5})),
        "formulas",
        degrees=Degrees(**degrees),
        data_parallel=DataParallel("ddp"),
    )
    return sum(part.elements for part in parts_of(Rank(job, decoder_of(job.model), stage)))


def test_stages_have_their_layers_and_the_ends_theirs():
    job = Job(megatron(**{"num-layers": 5}), "formulas", degrees=Degrees(pipeline_parallel_degree=2))

    assert layers_of_stages(job, 5) == [3, 2]
    assert elements(0, pipeline_parallel_degree=2) == 3 * LAYER + 16 * 8
    assert elements(1, pipeline_parallel_degree=2) == 2 * LAYER + 16 * 8 + 8


def test_megatron_may_say_how_many_layers_the_end_stages_have():
    arguments = {"decoder-first-pipeline-num-layers": 3, "decoder-last-pipeline-num-layers": 2}
    job = Job(megatron(**arguments), "formulas", degrees=Degrees(pipeline_parallel_degree=16))

    assert layers_of_stages(job, 61) == [3, *[4] * 14, 2]


def test_a_tied_head_has_a_copy_on_the_last_stage():
    model = Model("shape", "m", json.dumps({**SMALL, "tied": True}))

    assert elements(0, model=model, pipeline_parallel_degree=2) == LAYER + 16 * 8
    assert elements(1, model=model, pipeline_parallel_degree=2) == LAYER + 16 * 8 + 8


def test_tensor_parallelism_splits_all_but_the_norms():
    norms = 5 * 2 * 8 + 8

    assert elements(tensor_parallel_degree=2) == (5 * LAYER + ENDS - norms) // 2 + norms


def test_experts_are_shared_out_over_their_ranks():
    shape = {**SMALL, "experts": 4, "experts_per_token": 2, "expert_intermediate": 4}
    model = Model("shape", "m", json.dumps(shape))
    experts = 2 * 4 * 96

    whole, halved = (
        elements(model=model),
        elements(model=model, data_parallel_shard_degree=2, expert_parallel_degree=2),
    )

    assert whole - halved == experts // 2
