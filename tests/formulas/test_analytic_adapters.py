"""Adapters and quantised bases: against peft and bitsandbytes where they are, and published counts."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.adapters import adapted
from pytest_membudget.formulas.inputs.hugging_face import read_config
from pytest_membudget.formulas.job import Adapter
from pytest_membudget.formulas.parameters import inventory_of
from pytest_membudget.formulas.quantised import quantised_bytes, quantised_storages
from tests.formulas.inputs.small_configs import DECODER, DEEPSEEK, QWEN_MOE
from tests.formulas.inputs.small_configs import GPT2 as GPT2_SIZES
from tests.formulas.inputs.small_configs import VIT as VIT_SIZES


def config(model_type, architecture, values, **more):
    return {"model_type": model_type, "architectures": [architecture], **values, **more}


LLAMA = config("llama", "LlamaForCausalLM", DECODER)
GPT2 = config("gpt2", "GPT2LMHeadModel", GPT2_SIZES)
MIXTRAL = config("mixtral", "MixtralForCausalLM", DECODER, num_local_experts=5, num_experts_per_tok=2)
QWEN2_MOE = config("qwen2_moe", "Qwen2MoeForCausalLM", QWEN_MOE, shared_expert_intermediate_size=22)
QWEN3_MOE = config("qwen3_moe", "Qwen3MoeForCausalLM", QWEN_MOE, head_dim=14)
DEEPSEEK_V3 = config("deepseek_v3", "DeepseekV3ForCausalLM", DEEPSEEK)
VIT = config("vit", "ViTModel", VIT_SIZES)
MT0_LARGE = config(
    "mt5",
    "MT5ForConditionalGeneration",
    {"vocab_size": 250112, "d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 24, "num_heads": 16},
    num_decoder_layers=24,
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
)
EXPERTS = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


def tensors_of(inventory):
    """Every kind of tensor with how many there are of it."""
    outside = [(tensor, tensor.count) for tensor in (*inventory.before, *inventory.after)]
    inside = [(t, t.count * layer.count) for layer in inventory.layers for t in layer.tensors]
    return [*outside, *inside]


def adapted_of(config, adapter):
    model = read_config(config)
    return adapted(inventory_of(model), model, adapter)


def trained(config, adapter):
    return sum(t.elements * n for t, n in tensors_of(adapted_of(config, adapter)) if t.is_trained)


def real_model(config):
    kinds = {"MT5ForConditionalGeneration": AutoModelForSeq2SeqLM, "ViTModel": AutoModel}
    auto = kinds.get(config["architectures"][0], AutoModelForCausalLM)
    with torch.device("meta"):
        return auto.from_config(AutoConfig.for_model(**config))


LLAMA_7B = {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32}
BERT_BASE = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072}


@pytest.mark.parametrize(
    ("published", "adapter", "parameters"),
    [
        # ymcui/Chinese-LLaMA-Alpaca#189
        (
            config("llama", "LlamaForCausalLM", LLAMA_7B, num_attention_heads=32, num_key_value_heads=32),
            Adapter(8, ("q_proj", "v_proj")),
            4_194_304,
        ),
        # huggingface/peft#801
        (
            config("bert", "BertModel", BERT_BASE, num_attention_heads=12),
            Adapter(16, ("query", "value")),
            589_824,
        ),
        # peft's quicktour
        (MT0_LARGE, Adapter(8, ("q", "v")), 2_359_296),
    ],
    ids=["LLaMA-7B", "BERT-base", "mt0-large"],
)
def test_published_counts_of_what_is_trained(published, adapter, parameters):
    assert trained(published, adapter) == parameters


def test_names_and_shapes_of_a_linear_layers_adapters():
    layer = adapted_of(LLAMA, Adapter(8, ("k_proj",), is_dora=True)).layers[0]

    found = {t.name: (t.shape, t.number_type, t.split_dim) for t in layer.tensors if t.is_trained}

    assert found == {
        "self_attn.k_proj.lora_A.default.weight": ((8, 48), "fp32", None),
        "self_attn.k_proj.lora_B.default.weight": ((24, 8), "fp32", 0),
        "self_attn.k_proj.lora_magnitude_vector.default.weight": ((24,), "fp32", 0),
    }


def test_adapters_of_projections_out_split_their_inputs():
    layer = adapted_of(LLAMA, Adapter(8, ("down_proj",))).layers[0]

    splits = {t.name.split(".")[2]: t.split_dim for t in layer.tensors if t.is_trained}

    assert splits == {"lora_A": 1, "lora_B": None}


CASES = {
    "llama": (LLAMA, "all-linear", (), False),
    "llama-dora": (LLAMA, ["q_proj", "down_proj"], (), True),
    "llama-tables": (LLAMA, ["embed_tokens", "lm_head"], (), False),
    "llama-tables-dora": (LLAMA, ["embed_tokens", "lm_head"], (), True),
    "gpt2": (GPT2, "all-linear", (), False),
    "gpt2-dora": (GPT2, ["c_attn"], (), True),
    "mixtral": (MIXTRAL, "all-linear", (), False),
    "mixtral-experts": (MIXTRAL, ["q_proj"], EXPERTS, False),
    "qwen2-moe": (QWEN2_MOE, "all-linear", (), False),
    "mixtral-old-names": (MIXTRAL, ["q_proj", "w1", "w2", "w3"], (), False),
    "qwen3-moe": (QWEN3_MOE, "all-linear", (), False),
    "qwen3-moe-old-names": (QWEN3_MOE, ["k_proj", "gate_proj", "up_proj"], (), False),
    "deepseek-v3": (DEEPSEEK_V3, "all-linear", (), False),
    "deepseek-v3-old-names": (DEEPSEEK_V3, ["q_b_proj", "down_proj", "gate"], (), False),
    "vit": (VIT, "all-linear", (), False),
    "vit-patches": (VIT, ["projection"], (), False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_peft_adds_as_many_of_the_same_shapes(case):
    peft = pytest.importorskip("peft")
    config, targets, parameters, is_dora = CASES[case]
    written = (targets,) if isinstance(targets, str) else tuple(targets)
    real = peft.get_peft_model(
        real_model(config),
        peft.LoraConfig(
            r=8, target_modules=targets, target_parameters=list(parameters) or None, use_dora=is_dora
        ),
    )

    inventory = adapted_of(config, Adapter(8, (*written, *parameters), is_dora=is_dora))

    shapes = Counter()
    for tensor, count in tensors_of(inventory):
        if tensor.is_trained:
            shapes[tensor.shape] += count
    assert shapes == Counter(tuple(p.shape) for p in real.parameters() if p.requires_grad)


def test_the_base_is_frozen_and_its_linear_layers_are_quantised():
    inventory = adapted_of(LLAMA, Adapter(8, ("all-linear",), base="nf4"))

    stored = {t.name: t.quantised for t, _ in tensors_of(inventory) if not t.is_trained}

    assert stored["self_attn.q_proj.weight"] == stored["mlp.down_proj.weight"] == "nf4"
    assert stored["lm_head.weight"] is stored["model.embed_tokens.weight"] is None
    assert stored["input_layernorm.weight"] is None


def test_stacked_experts_and_routers_are_parameters_that_stay():
    """transformers 5: MixtralExperts and MixtralTopKRouter hold parameters; nn.Linear alone is replaced."""
    inventory = adapted_of(MIXTRAL, Adapter(8, ("q_proj",), base="int8"))

    stored = {t.name: t.quantised for t, _ in tensors_of(inventory)}

    assert stored["mlp.experts.down_proj"] is None
    assert stored["mlp.gate.weight"] is None
    assert stored["self_attn.o_proj.weight"] == "int8"


def test_preparing_for_k_bit_training_makes_the_rest_fp32():
    inventory = adapted_of(LLAMA, Adapter(8, ("q_proj",), base="nf4", casts_rest=True))

    kinds = {t.name: t.number_type for t, _ in tensors_of(inventory) if t.quantised is None}

    assert set(kinds.values()) == {"fp32"}
    assert "model.embed_tokens.weight" in kinds


def test_conv1ds_weights_are_turned_round_when_they_are_quantised():
    inventory = adapted_of(GPT2, Adapter(8, ("c_attn",), base="int8"))

    weight = next(t for t, _ in tensors_of(inventory) if t.name == "attn.c_attn.weight")

    assert (weight.shape, weight.split_dim) == ((144, 48), 0)


def test_a_target_that_names_nothing_is_an_error():
    with pytest.raises(UsageMistake, match=r"'qproj': write some of down_proj, gate_proj"):
        adapted_of(LLAMA, Adapter(8, ("q_proj", "qproj")))


def test_mixtrals_old_names_are_its_stacked_experts():
    """peft 0.21.2 on transformers 5: w1 and w3 are gate_up_proj, at twice the rank; w2 is down_proj."""
    layer = adapted_of(MIXTRAL, Adapter(8, ("w1", "w2", "w3"))).layers[0]

    found = {t.name.split(".")[2] + t.name.split(".")[3]: t.shape for t in layer.tensors if t.is_trained}

    assert found == {
        "gate_up_projlora_A": (16 * 5, 48),
        "gate_up_projlora_B": (2 * 74, 16 * 5),
        "down_projlora_A": (8 * 5, 74),
        "down_projlora_B": (48, 8 * 5),
    }


def test_half_of_a_tensor_that_was_two_is_an_error():
    with pytest.raises(UsageMistake, match="add w3"):
        adapted_of(MIXTRAL, Adapter(8, ("w1",)))


@pytest.mark.parametrize("fields", [{"is_dora": True}, {"dropout": 0.1}])
def test_stacked_experts_take_plain_adapters_alone(fields):
    with pytest.raises(UsageMistake, match="leave experts"):
        adapted_of(MIXTRAL, replace(Adapter(8, EXPERTS), **fields))


def test_qlora_papers_bits_a_parameter():
    """Dettmers et al. 2023, section 3: constants take 0.5 bits a parameter, doubly quantised 0.127."""
    shape = (2**14, 2**14)
    elements = 2**28
    tables = {"nf4": 64, "nf4-double": 64 + 1024 + 4}

    bits = {base: (quantised_bytes(shape, base) - taken) * 8 / elements for base, taken in tables.items()}

    assert bits["nf4"] == 4 + 0.5
    assert bits["nf4-double"] == 4 + 8 / 64 + 32 / (64 * 256)
    assert round(bits["nf4-double"] - 4, 3) == 0.127


def test_odd_sizes_by_hand():
    """7,035 elements: 110 blocks of 64, one nested block; 3,518 bytes packed."""
    assert quantised_bytes((105, 67), "nf4") == 3518 + 110 * 4 + 64
    assert quantised_bytes((105, 67), "nf4-double") == 3518 + 110 + 64 + 4 + 1024 + 4
    assert quantised_bytes((105, 67), "int8") == 7035 + 105 * 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("base", ["nf4", "nf4-double", "fp4", "int8"])
@pytest.mark.parametrize("shape", [(105, 67), (64, 64), (301, 2003)])
def test_bitsandbytes_stores_as_much(base, shape):
    functional = pytest.importorskip("bitsandbytes.functional")
    weight = torch.randn(shape, dtype=torch.float16)

    if base == "int8":
        kept = list(functional.int8_vectorwise_quant(weight)[:2])
    else:
        packed, state = functional.quantize_4bit(
            weight, compress_statistics=base.endswith("double"), quant_type=base.split("-")[0]
        )
        kept = [packed, state.absmax, state.code]
        if state.state2 is not None:
            kept += [state.state2.absmax, state.state2.code, state.offset]

    assert [size for _, size in quantised_storages(shape, base)] == [part.nbytes for part in kept]
