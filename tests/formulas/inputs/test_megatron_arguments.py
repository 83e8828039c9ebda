"""Megatron-LM's arguments: its defaults, its shapes, the recorded cases, and what is wrong with some."""

import re
from pathlib import Path

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs.megatron_arguments import padded_vocab, read_megatron
from pytest_membudget.formulas.model import Experts, FeedForward
from pytest_membudget.formulas.parameters import inventory_of, parameter_count

TRUTH = Path(__file__).parents[4] / "shared" / "truth" / "cases.yaml"
SMALL = {
    "num-layers": 4,
    "hidden-size": 64,
    "num-attention-heads": 4,
    "max-position-embeddings": 32,
    "vocab-size": 1000,
}


def model_of(**more):
    arguments = {**SMALL, **{key.replace("_", "-"): value for key, value in more.items()}}
    return read_megatron(arguments)[0]


def tensors(model, group=0):
    return {t.name: (t.shape, t.count) for t in inventory_of(model).layers[group].tensors}


def outside(model):
    inventory = inventory_of(model)
    return {t.name: t.shape for t in (*inventory.before, *inventory.after)}


class TestDefaults:
    """megatron/training/arguments.py and transformer_config.py, d98e8a64."""

    def test_swiglu_narrows_the_feed_forward_block_to_whole_64s(self):
        # 4 x 64 x 2 / 3 = 170.7, in whole 64s 128
        assert model_of(swiglu=True).decoder.groups[0][0].feed_forward.intermediate == 128
        assert model_of(swiglu=True, ffn_hidden_size=99).decoder.groups[0][0].feed_forward.intermediate == 99

    def test_query_groups_count_only_with_grouped_attention(self):
        assert model_of(num_query_groups=2).decoder.groups[0][0].attention.kv_heads == 4
        with_groups = model_of(num_query_groups=2, group_query_attention=True)
        assert with_groups.decoder.groups[0][0].attention.kv_heads == 2


class TestTensors:
    def test_latent_attention(self):
        # the sizes of its functional test gpt3_mcore_te_tp2_pp2_mla
        latent = {
            "multi_latent_attention": True,
            "q_lora_rank": 192,
            "kv_lora_rank": 64,
            "qk_head_dim": 16,
            "qk_pos_emb_head_dim": 8,
            "v_head_dim": 16,
        }
        names = {
            name: shape for name, (shape, _) in tensors(model_of(**latent)).items() if "attention" in name
        }

        assert names == {
            "self_attention.linear_q_down_proj.weight": (192, 64),
            "self_attention.linear_q_up_proj.weight": (4 * 24, 192),
            "self_attention.linear_kv_down_proj.weight": (64 + 8, 64),
            "self_attention.linear_kv_up_proj.weight": (4 * 32, 64),
            "self_attention.linear_proj.weight": (64, 4 * 16),
            "self_attention.linear_proj.bias": (64,),
        }
        with_norms = tensors(model_of(**latent, qk_layernorm=True, normalization="RMSNorm"))
        assert with_norms["self_attention.q_layernorm.weight"] == ((192,), 1)
        assert with_norms["self_attention.kv_layernorm.weight"] == ((64,), 1)

    def test_experts(self):
        model = model_of(
            num_experts=6,
            moe_ffn_hidden_size=40,
            moe_shared_expert_intermediate_size=50,
            moe_layer_freq="([0]*1+[1]*3)",
            moe_router_enable_expert_bias=True,
            disable_bias_linear=True,
            swiglu=True,
        )

        assert [(type(layer.feed_forward), count) for layer, count in model.decoder.groups] == [
            (FeedForward, 1),
            (Experts, 3),
        ]
        found = {name: value for name, value in tensors(model, group=1).items() if name.startswith("mlp.")}
        assert found == {
            "mlp.router.weight": ((6, 64), 1),
            "mlp.router.expert_bias": ((6,), 1),
            "mlp.experts.local_experts.*.linear_fc1.weight": ((80, 64), 6),
            "mlp.experts.local_experts.*.linear_fc2.weight": ((64, 40), 6),
            "mlp.shared_experts.linear_fc1.weight": ((100, 64), 1),
            "mlp.shared_experts.linear_fc2.weight": ((64, 50), 1),
        }

    def test_a_layer_for_further_tokens(self):
        found = outside(model_of(mtp_num_layers=1, position_embedding_type="rope", disable_bias_linear=True))

        assert found["mtp.layers.*.eh_proj.weight"] == (64, 128)
        assert found["mtp.layers.*.enorm.weight"] == (64,)
        assert found["mtp.layers.*.final_layernorm.bias"] == (64,)
        assert found["mtp.layers.*.transformer_layer.self_attention.linear_qkv.weight"] == (192, 64)

    def test_bert(self):
        model = read_megatron(SMALL, kind="bert")[0]

        assert not model.decoder.is_causal
        assert outside(model) == {
            "embedding.word_embeddings.weight": (1024, 64),
            "embedding.position_embeddings.weight": (32, 64),
            "embedding.tokentype_embeddings.weight": (2, 64),
            "decoder.final_layernorm.weight": (64,),
            "decoder.final_layernorm.bias": (64,),
            "pooler.dense.weight": (64, 64),
            "pooler.dense.bias": (64,),
            "lm_head.dense.weight": (64, 64),
            "lm_head.dense.bias": (64,),
            "lm_head.layer_norm.weight": (64,),
            "lm_head.layer_norm.bias": (64,),
            "output_layer.bias": (1024,),
            "binary_head.weight": (2, 64),
            "binary_head.bias": (2,),
        }
        without = read_megatron({**SMALL, "bert-no-binary-head": True}, kind="bert")[0]
        assert not {"binary_head.weight", "pooler.dense.weight"} & outside(without).keys()


class TestPublished:
    def test_gpt3_175b(self):
        # arXiv 2005.14165, table 2.1: 96 layers, 12288 wide, 96 heads; 2104.04473, table 1: 174.6B
        model = read_megatron(
            {
                "num-layers": 96,
                "hidden-size": 12288,
                "num-attention-heads": 96,
                "max-position-embeddings": 2048,
                "vocab-size": 51200,
            }
        )[0]

        assert round(parameter_count(model) / 1e9, 1) == 174.6

    def test_the_trillion_parameter_model(self):
        # arXiv 2104.04473, table 1: 128 layers, 25600 wide, 160 heads, vocabulary 51,200: 1008.0B
        model = read_megatron(
            {
                "num-layers": 128,
                "hidden-size": 25600,
                "num-attention-heads": 160,
                "max-position-embeddings": 2048,
                "vocab-size": 51200,
            }
        )[0]

        assert round(parameter_count(model) / 1e9, 1) == 1008.0


class TestReading:
    def test_arguments_about_anything_else_come_back_untouched(self):
        others = {"tensor-model-parallel-size": 2, "micro_batch_size": 4, "--bf16": True, "lr": "1e-4"}

        model, rest = read_megatron({**SMALL, **others})

        assert rest == others
        assert model.vocab == padded_vocab(1000, 128, 2) == 1024

    def test_names_as_on_a_command_line_or_as_in_python(self):
        dashed = {f"--{key}": str(value) for key, value in SMALL.items()}
        python = {key.replace("-", "_"): value for key, value in SMALL.items()}

        assert read_megatron(dashed) == read_megatron(python) == read_megatron(SMALL)

    def test_a_vocabulary_is_padded_for_tensor_parallelism(self):
        # 50257 to a multiple of 128 x 4
        assert padded_vocab(50257, 128, 4) == 50688
        assert padded_vocab(50257, 128, 1) == 50304
        assert padded_vocab(51200, 128, 1) == 51200

    def test_the_tokenizers_size_stands_in_for_the_arguments(self):
        without = {key: value for key, value in SMALL.items() if key != "vocab-size"}

        assert read_megatron(without, tokenizer_vocab=50257)[0].vocab == 50304
        with pytest.raises(UsageMistake, match="vocab-size is missing"):
            read_megatron(without)

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("[1,0]*2", [True, False, True, False]),
            ("([0]*3+[1])", [False, False, False, True]),
            ([1, 0, 0, 1], [True, False, False, True]),
            (3, [True, False, False, True]),
        ],
    )
    def test_patterns_of_layers_with_experts(self, pattern, expected):
        groups = model_of(num_experts=2, moe_layer_freq=pattern).decoder.groups

        assert [isinstance(layer.feed_forward, Experts) for layer, n in groups for _ in range(n)] == expected

    def test_a_window_counts_the_token_itself(self):
        for written in ([127, 0], "127,0", "(127, 0)"):
            assert model_of(window_size=written).decoder.groups[0][0].attention.window == 128
        assert model_of(window_size=[-1, 0]).decoder.groups[0][0].attention.window is None


class TestMistakes:
    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"num-layers": None}, "num-layers=None cannot be used; write a whole number"),
            ({"num-layers": "many"}, "num-layers='many' cannot be used"),
            ({"num-attention-heads": 5}, "hidden-size=64 is not a multiple of num-attention-heads=5"),
            ({"group-query-attention": True, "num-query-groups": 3}, "that divides num-attention-heads=4"),
            ({"swiglu": "yes"}, "swiglu='yes' cannot be used; write true or false"),
            ({"normalization": "BatchNorm"}, "write LayerNorm or RMSNorm"),
            ({"position-embedding-type": "relative"}, "position-embedding-type='relative' cannot be used"),
            ({"max-position-embeddings": None}, "max-position-embeddings is missing"),
            ({"num-experts": 2, "moe-layer-freq": "[1]*3"}, "moe-layer-freq has 3 layers, num-layers is 4"),
            (
                {"num-experts": 2, "moe-layer-freq": "open('x')"},
                "moe-layer-freq=\"open('x')\" cannot be used",
            ),
            ({"num-experts": 2, "moe-router-topk": 3}, "at most num-experts=2"),
            ({"num-experts": 2, "moe-shared-expert-intermediate-size": 8}, "needs disable-bias-linear"),
            ({"hybrid-layer-pattern": "M*M-"}, "hybrid-layer-pattern='M*M-' changes what a rank holds"),
            ({"window-size": "wide"}, "write two whole numbers"),
            ({"softmax-type": "hard"}, "softmax-type='hard' cannot be used"),
            ({"hidden-dropout": "a bit"}, "hidden-dropout='a bit' cannot be used"),
        ],
    )
    def test_what_is_wrong_is_named(self, more, said):
        with pytest.raises(UsageMistake, match=re.escape(said)):
            read_megatron({**SMALL, **more}, where="Megatron arguments")

    def test_switched_off_is_not_refused(self):
        read_megatron({**SMALL, "hybrid-layer-pattern": None, "qk-l2-norm": False})


def recorded():
    yaml = pytest.importorskip("yaml")
    if not TRUTH.exists():
        pytest.skip(f"no recorded cases at {TRUTH}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time
    cases = yaml.load(TRUTH.read_text(encoding="utf-8"), Loader=loader)["cases"]
    return [case for case in cases if case["id"].startswith("megatron-")]


def test_the_arguments_of_every_recorded_case_are_read():
    cases = recorded()
    assert len(cases) == 51
    for case in cases:
        is_bert = case["id"].startswith("megatron-bert")
        model, rest = read_megatron(
            case["args"], kind="bert" if is_bert else "gpt", tokenizer_vocab=30522 if is_bert else 50257
        )

        assert model.decoder.layer_count == case["args"]["num-layers"]
        assert not {"num-layers", "hidden-size", "num-experts", "swiglu"} & rest.keys()
        assert rest.keys() <= case["args"].keys()
