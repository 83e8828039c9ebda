"""torchtitan's Llama 3, by flavour and by shape."""

import re

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs.torchtitan_arguments import read_torchtitan
from pytest_membudget.formulas.parameters import inventory_of, parameter_count

SMALL = {"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100}


@pytest.mark.parametrize(
    ("flavor", "parameters"),
    [  # the hub's counts of the same Llamas
        ("1B", 1_235_814_400),
        ("3B", 3_212_749_824),
        ("8B", 8_030_261_248),
        ("70B", 70_553_706_496),
        ("405B", 405_853_388_800),
    ],
)
def test_flavours_are_the_published_llamas(flavor, parameters):
    assert parameter_count(read_torchtitan({"flavor": flavor})) == parameters


def test_tensors_of_a_shape_with_and_without_a_fused_projection():
    arguments = {**SMALL, "n_kv_heads": 2, "hidden_dim": 70}
    fused = {t.name: t.shape for t in inventory_of(read_torchtitan(arguments)).layers[0].tensors}
    apart = {
        t.name: t.shape
        for t in inventory_of(read_torchtitan({**arguments, "fuse_qkv": False})).layers[0].tensors
    }

    common = {
        "attention.wo.weight": (64, 64),
        "feed_forward.w1.weight": (70, 64),
        "feed_forward.w3.weight": (70, 64),
        "feed_forward.w2.weight": (64, 70),
        "attention_norm.weight": (64,),
        "ffn_norm.weight": (64,),
    }
    assert fused == {**common, "attention.qkv_linear.wqkv.weight": (128, 64)}
    assert apart == {
        **common,
        "attention.qkv_linear.wq.weight": (64, 64),
        "attention.qkv_linear.wk.weight": (32, 64),
        "attention.qkv_linear.wv.weight": (32, 64),
    }


def test_a_tied_head_is_no_tensor_of_its_own():
    tied = inventory_of(read_torchtitan({**SMALL, "enable_weight_tying": True}))
    untied = inventory_of(read_torchtitan(SMALL))

    assert [t.name for t in tied.after] == ["norm.weight"]
    assert [t.name for t in untied.after] == ["norm.weight", "lm_head.weight"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"flavor": "9B"}, "flavor='9B' is not known; write one of debugmodel, 1B"),
        ({**SMALL, "n_kv_head": 2}, "n_kv_head is not known. Did you mean 'n_kv_heads'?"),
        ({"dim": 64}, "n_heads is missing"),
        ({**SMALL, "n_heads": 5}, "dim=64 is not a multiple of n_heads=5"),
        ({**SMALL, "n_kv_heads": 3}, "that divides n_heads=4"),
        ({**SMALL, "ffn_dim_multiplier": "1.3"}, "ffn_dim_multiplier='1.3' cannot be used"),
        ({**SMALL, "vocab_size": 0}, "vocab_size=0 cannot be used"),
    ],
)
def test_what_is_wrong_is_named(arguments, said):
    with pytest.raises(UsageMistake, match=re.escape(said)):
        read_torchtitan(arguments)
