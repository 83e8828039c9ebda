"""A shape that somebody wrote down."""

import re

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs.explicit import read_shape
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.model import Experts, FeedForward
from pytest_membudget.formulas.parameters import inventory_of, parameter_count

SMALL = {"hidden": 48, "layers": 3, "heads": 4, "vocab": 101, "intermediate": 74}


def test_a_llama_is_written_in_six_words():
    shape = {"hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 8, "intermediate": 14336, "vocab": 128256}

    assert parameter_count(read_shape(shape)) == 8_030_261_248
    llama = read_config(
        {"model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336, "num_key_value_heads": 8}
    )
    assert inventory_of(read_shape(shape)) == inventory_of(llama)


def test_an_old_gpt():
    gpt2 = {
        "hidden": 768,
        "layers": 12,
        "heads": 12,
        "intermediate": 3072,
        "vocab": 50257,
        "positions": 1024,
        "tied": True,
        "gated": False,
        "norm": "layer",
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "fused_qkv": True,
    }
    model = read_shape(gpt2)

    assert parameter_count(model) == 124_439_808
    assert model.decoder.groups[0][0].attention.rotary_dim == 0
    assert model.decoder.groups[0][0].feed_forward.activation == "gelu"


def test_deepseek_v3():
    shape = {
        "hidden": 7168,
        "layers": 61,
        "heads": 128,
        "vocab": 129280,
        "intermediate": 18432,
        "dense_layers": 3,
        "experts": 256,
        "experts_per_token": 8,
        "expert_intermediate": 2048,
        "shared_intermediate": 2048,
        "router_bias": True,
        "query_rank": 1536,
        "kv_rank": 512,
        "rope_dim": 64,
        "nope_dim": 128,
        "value_dim": 128,
    }

    assert parameter_count(read_shape(shape)) == 671_026_419_200


def test_a_vision_transformer():
    shape = {
        "hidden": 768,
        "layers": 12,
        "heads": 12,
        "intermediate": 3072,
        "image_size": 224,
        "patch_size": 16,
        "classes": 1000,
        "gated": False,
        "norm": "layer",
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "head_bias": True,
        "causal": False,
    }
    assert parameter_count(read_shape(shape)) == 86_567_656


def test_first_layers_may_be_dense():
    experts = {"experts": 5, "experts_per_token": 2, "expert_intermediate": 9, "dense_layers": 1}

    groups = read_shape({**SMALL, **experts}).decoder.groups

    assert [(type(layer.feed_forward), count) for layer, count in groups] == [(FeedForward, 1), (Experts, 2)]


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"hidden_size": 3}, "hidden_size is not known. Did you mean 'hidden'?"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is not known. Did you mean 'kv_heads'?"),
        ({"intermediat": 3}, "intermediat is not known. Did you mean 'intermediate'?"),
        ({"zzz": 3}, "zzz is not known. Known: hidden, layers, heads"),
        ({"layers": None}, "layers is missing; a shape needs at least hidden, layers, heads"),
        ({"vocab": None}, "vocab is missing"),
        ({"intermediate": None}, "intermediate is missing"),
        ({"heads": 5}, "hidden=48 is not a multiple of heads=5; write head_dim"),
        ({"kv_heads": 3}, "kv_heads=3 cannot be used; write a number that divides heads=4"),
        ({"layers": 1.5}, "layers=1.5 cannot be used"),
        ({"norm": "batch"}, "norm='batch' cannot be used; write rms or layer"),
        ({"qk_norm": "all"}, "qk_norm='all' cannot be used"),
        ({"experts": 4}, "experts_per_token is missing"),
        (
            {"experts": 4, "experts_per_token": 5, "expert_intermediate": 3},
            "experts_per_token=5 cannot be used; write at most experts=4",
        ),
        ({"query_rank": 4}, "latent attention lacks kv_rank and rope_dim and nope_dim"),
        ({"image_size": 32}, "image_size=32 and patch_size=None go together"),
        ({"tied": 1}, "tied=1 cannot be used; write true or false"),
    ],
)
def test_what_is_wrong_is_named_with_the_nearest_right_key(shape, said):
    with pytest.raises(UsageMistake, match=re.escape(said)):
        read_shape({**SMALL, **shape})
