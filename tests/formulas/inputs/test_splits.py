"""How tensor parallelism splits each tensor, against transformers' own plans."""

import pytest

from pytest_membudget.formulas.inputs.hugging_face import FAMILIES, read_config
from pytest_membudget.formulas.parameters import inventory_of
from tests.formulas.inputs.small_configs import CASES

transformers = pytest.importorskip("transformers")

#: What a plan's word does to a weight [out, in]; a stacked one has the expert before.
SPLIT_OF = {
    "colwise": 0, "colwise_gather_output": 0, "packed_colwise": 0, "rowwise": 1, "rowwise_split_input": 1,
    "packed_rowwise": 1, "mla_kv_a_proj": None, "replicated_with_grad_allreduce": None,
}  # fmt: skip
WITH_PLANS = [
    (model_type, class_name, values)
    for model_type, class_name, values in CASES
    if type(transformers.AutoConfig.for_model(model_type)).base_model_tp_plan
    and class_name.endswith("CausalLM")
]


def planned(model_type):
    plan = type(transformers.AutoConfig.for_model(model_type)).base_model_tp_plan
    return {name.removeprefix("layers.*."): word for name, word in plan.items()}


@pytest.mark.parametrize(
    ("model_type", "class_name", "values"),
    WITH_PLANS,
    ids=[f"{number}-{class_name}" for number, (_, class_name, _) in enumerate(WITH_PLANS)],
)
def test_weights_are_split_as_transformers_splits_them(model_type, class_name, values):
    plan = planned(model_type)
    model = read_config({**values, "model_type": model_type, "architectures": [class_name]})
    compared = 0
    for layers in inventory_of(model).layers:
        for tensor in layers.tensors:
            module, _, kind = tensor.name.rpartition(".")
            stacked = tensor.place == "expert"
            word = plan.get(tensor.name if stacked else module)
            if word is None or (not stacked and kind != "weight"):
                continue
            if stacked and model_type == "llama4_text":
                # [expert, in, out]: the plan's words name dimensions of the transposed weight
                expected = {"packed_rowwise": 2, "colwise": 1}[word]
            else:
                split = SPLIT_OF[word]
                expected = None if split is None else split + stacked
            assert tensor.split_dim == expected, tensor.name
            compared += 1

    assert compared >= 4


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_a_bias_goes_with_its_weight(model_type):
    for kind, class_name, values in CASES:
        if kind != model_type:
            continue
        for layers in inventory_of(
            read_config({**values, "model_type": kind, "architectures": [class_name]})
        ).layers:
            weights = {t.name: t for t in layers.tensors if t.name.endswith(".weight")}
            for bias in layers.tensors:
                if not bias.name.endswith(".bias"):
                    continue
                weight = weights[f"{bias.name.removesuffix('bias')}weight"]
                output_dim = 1 if model_type == "gpt2" and weight.place != "norm" else 0
                assert bias.split_dim == (0 if weight.split_dim == output_dim else None), bias.name


def test_gpt2s_transposed_weights_are_split_along_the_other_dimension():
    tensors = {t.name: t for t in inventory_of(read_config({"model_type": "gpt2"})).layers[0].tensors}

    assert (tensors["attn.c_attn.weight"].shape, tensors["attn.c_attn.weight"].split_dim) == ((768, 2304), 1)
    assert (tensors["attn.c_proj.weight"].shape, tensors["attn.c_proj.weight"].split_dim) == ((768, 768), 0)
    assert tensors["attn.c_attn.bias"].split_dim == 0
    assert tensors["attn.c_proj.bias"].split_dim is None


def test_what_gets_no_gradient_is_distinguished():
    layers = inventory_of(read_config({"model_type": "deepseek_v3"})).layers
    untrained = [t for t in layers[1].tensors if not t.is_trained]

    assert [(t.name, t.shape, t.number_type) for t in untrained] == [
        ("mlp.gate.e_score_correction_bias", (256,), "fp32")
    ]
