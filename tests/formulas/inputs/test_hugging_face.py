"""What a configuration says beside its tensors, and what is wrong with one."""

import dataclasses
import json
import re

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.inputs import hugging_face
from pytest_membudget.formulas.inputs.hugging_face import FAMILIES, model_of_path, read_config
from pytest_membudget.formulas.model import Experts, FeedForward, Norm
from tests.formulas.inputs.small_configs import DECODER, DEEPSEEK, GPT2, NEOX, T5, VIT

LLAMA = {**DECODER, "model_type": "llama"}


def first_layer(model):
    return model.decoder.groups[0][0]


def windows(model):
    return [layer.attention.window for layer, count in model.decoder.groups for _ in range(count)]


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


class TestDefaults:
    """Held against the configuration classes themselves: a field that transformers adds fails here."""

    def fields_of(self, transformers, model_type):
        base = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}
        config_class = type(transformers.AutoConfig.for_model(model_type))
        return {
            field.name: field.default for field in dataclasses.fields(config_class) if field.name not in base
        }

    @pytest.mark.parametrize("model_type", FAMILIES)
    def test_every_field_of_the_class_is_read_or_ignored_on_purpose(self, transformers, model_type):
        family = FAMILIES[model_type]

        assert self.fields_of(transformers, model_type).keys() == family.defaults.keys() | family.ignored
        assert not family.defaults.keys() & family.ignored

    @pytest.mark.parametrize("model_type", FAMILIES)
    def test_defaults_are_those_of_the_class(self, transformers, model_type):
        theirs = self.fields_of(transformers, model_type)

        assert {key: theirs[key] for key in FAMILIES[model_type].defaults} == FAMILIES[model_type].defaults

    @pytest.mark.parametrize("model_type", FAMILIES)
    def test_other_names_of_keys_are_those_of_the_class(self, transformers, model_type):
        family = FAMILIES[model_type]
        pairs = type(transformers.AutoConfig.for_model(model_type)).attribute_map.items()
        read = {
            (other, key)
            for pair in pairs
            for other, key in (pair, pair[::-1])
            if key in family.defaults and other not in family.defaults
        }

        # Falcon's class reads its old name for the hidden size without such a map
        assert set(family.aliases.items()) - {("n_embed", "hidden_size")} == read

    def test_fields_that_all_classes_have_are_known(self, transformers):
        fields = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}

        assert fields == hugging_face.BASE_KEYS

    def test_settings_of_generate_that_files_may_hold_change_nothing(self, transformers):
        settings = transformers.GenerationConfig._get_default_generation_params()

        assert settings.keys() <= hugging_face.GENERATION_KEYS

    @pytest.mark.parametrize("model_type", sorted(FAMILIES.keys() - {"deepseek_v2"}))
    def test_a_file_may_leave_everything_out(self, model_type):
        model = read_config({"model_type": model_type})

        assert model.architecture == FAMILIES[model_type].usual_class
        assert model.name == model.architecture


class TestWhatALayerKeeps:
    def test_llama(self):
        model = read_config({**LLAMA, "attention_dropout": 0.1, "hidden_act": "gelu"})
        attention = first_layer(model).attention

        assert (attention.heads, attention.kv_heads, attention.head_dim, attention.rotary_dim) == (
            4,
            2,
            12,
            12,
        )
        assert attention.dropout == 0.1
        assert first_layer(model).feed_forward == FeedForward(74, gated=True, activation="gelu")
        assert model.decoder.final_norm == Norm("rms")
        assert model.max_positions == 66
        assert model.decoder.layer_count == 3

    def test_qwen2_has_a_window_only_where_it_is_switched_on(self):
        config = {**DECODER, "model_type": "qwen2", "sliding_window": 9, "max_window_layers": 1}

        assert windows(read_config(config)) == [None, None, None]
        assert windows(read_config({**config, "use_sliding_window": True})) == [None, 9, 9]

    def test_gemma2_has_one_in_every_second_layer(self):
        model = read_config({**DECODER, "model_type": "gemma2", "sliding_window": 9})

        assert windows(model) == [9, None, 9]
        assert model.final_softcap
        assert model.scales_embedding
        assert first_layer(model).has_post_norms

    @pytest.mark.parametrize(
        "model_type", [name for name, family in FAMILIES.items() if "layer_types" in family.defaults]
    )
    def test_the_layers_with_a_window_are_those_of_the_class(self, transformers, model_type):
        config = {
            "num_hidden_layers": 9,
            "sliding_window": 7,
            "use_sliding_window": True,
            "max_window_layers": 5,
        }
        known = {key: value for key, value in config.items() if key in FAMILIES[model_type].defaults}
        theirs = type(transformers.AutoConfig.for_model(model_type))(**known).layer_types

        ours = windows(read_config({**known, "model_type": model_type}))

        assert [window is not None for window in ours] == [kind != "full_attention" for kind in theirs]
        assert 0 < sum(window is not None for window in ours) < 9

    def test_layer_types_win_over_the_pattern(self):
        types = ["full_attention", "full_attention", "sliding_attention"]
        model = read_config({**DECODER, "model_type": "gemma2", "sliding_window": 9, "layer_types": types})

        assert windows(model) == [None, None, 9]

    def test_llama4_chunks_attention_where_positions_turn(self):
        model = read_config({**DECODER, "model_type": "llama4_text", "num_hidden_layers": 5, "head_dim": 10})
        layers = [layer for layer, count in model.decoder.groups for _ in range(count)]

        assert windows(model) == [8192, 8192, 8192, None, 8192]
        assert [layer.attention.rotary_dim for layer in layers] == [10, 10, 10, 0, 10]
        assert [layer.attention.qk_norm for layer in layers] == ["head", "head", "head", None, "head"]

    def test_qwen_moe_is_sparse_where_its_step_and_its_list_say(self):
        config = {"decoder_sparse_step": 2, "mlp_only_layers": [3], "num_hidden_layers": 6, "num_experts": 9}
        model = read_config({**DECODER, **config, "model_type": "qwen3_moe"})
        layers = [layer for layer, count in model.decoder.groups for _ in range(count)]

        sparse = [isinstance(layer.feed_forward, Experts) for layer in layers]
        assert sparse == [False, True, False, False, False, True]

    def test_neox_turns_a_quarter_of_a_head(self):
        for config, turned in (
            ({}, 3),
            ({"rotary_pct": 0.5}, 6),
            ({"rope_parameters": {"partial_rotary_factor": 1.0}}, 12),
        ):
            assert (
                first_layer(read_config({**NEOX, **config, "model_type": "gpt_neox"})).attention.rotary_dim
                == turned
            )


class TestFiles:
    def test_a_folder_or_its_file(self, tmp_path):
        folder = tmp_path / "my-model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")

        assert model_of_path(folder) == model_of_path(folder / "config.json")
        assert model_of_path(str(folder)).name == "my-model"

    @pytest.mark.parametrize(
        ("content", "said"),
        [(None, "cannot be read"), ("{", "is not JSON"), ("[1]", "holds no mapping")],
        ids=["absent", "broken", "list"],
    )
    def test_a_file_that_is_no_configuration(self, tmp_path, content, said):
        path = tmp_path / "config.json"
        if content is not None:
            path.write_text(content, encoding="utf-8")

        with pytest.raises(UsageMistake, match=re.escape(f"{path}") + f".*{said}"):
            model_of_path(path)

    def test_errors_name_the_file(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, "hidden_size": "4096"}), encoding="utf-8")

        with pytest.raises(UsageMistake, match=re.escape(f"{path}: hidden_size='4096'")):
            model_of_path(path)

    def test_llama4s_published_form_with_its_images(self):
        # keys of the hub's Llama 4 files, at other sizes
        text = {
            "model_type": "llama4_text",
            "attn_temperature_tuning": 4,
            "for_llm_compressor": False,
            "head_dim": 8,
            "hidden_size": 16,
            "moe_layers": [0, 2],
            "no_rope_layers": [1, 1, 0],
            "num_attention_heads": 10,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
            "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
            "torch_dtype": "bfloat16",
        }
        model = read_config({"model_type": "llama4", "text_config": text, "vision_config": {}})
        layers = [layer for layer, count in model.decoder.groups for _ in range(count)]

        assert [isinstance(layer.feed_forward, Experts) for layer in layers] == [True, False, True]
        assert [layer.attention.rotary_dim for layer in layers] == [8, 8, 0]

    def test_the_text_of_a_model_of_text_and_images(self):
        text = {**DECODER, "head_dim": 10}
        model = read_config(
            {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 3}}
        )

        assert model.architecture == "Gemma3ForCausalLM"
        assert model.name.endswith("(text part only)")
        assert model.hidden == 48


class TestMistakes:
    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ({"hidden_size": "4096"}, "hidden_size='4096' cannot be used; write a whole number, 1 or more"),
            ({"hidden_size": 4096.0}, "hidden_size=4096.0 cannot be used"),
            ({"hidden_size": None}, "hidden_size=None cannot be used"),
            ({"num_hidden_layers": 0}, "num_hidden_layers=0 cannot be used"),
            ({"num_hidden_layers": True}, "num_hidden_layers=True cannot be used"),
            ({"attention_dropout": 2}, "attention_dropout=2 cannot be used; write a number from 0 to 1"),
            ({"attention_bias": "no"}, "attention_bias='no' cannot be used; write true or false"),
            ({"hidden_act": 3}, "hidden_act=3 cannot be used; write a name"),
            ({"num_attention_heads": 5}, "hidden_size=48 is not a multiple of num_attention_heads=5"),
            ({"num_key_value_heads": 3}, "num_key_value_heads=3 does not divide num_attention_heads=4"),
            ({"rope_parameters": 3}, "rope_parameters=3 cannot be used; write a mapping"),
            ({"partial_rotary_factor": "half"}, "partial_rotary_factor='half' cannot be used"),
            (
                {"architectures": ["LlamaForQuestionAnswering"]},
                "is not understood; write LlamaForCausalLM or",
            ),
            ({"architectures": ["MistralForCausalLM"]}, "is not understood; write LlamaForCausalLM or"),
            ({"architectures": "LlamaForCausalLM"}, r"write ['LlamaForCausalLM']"),
            ({"per_layer_config": {"0": {"intermediate_size": 3}}}, "per_layer_config"),
            ({"num_key_value_head": 2}, "Did you mean 'num_key_value_heads'?"),
            ({"num_experts": 8}, "num_experts=8 may change shapes, and LlamaConfig has no such key"),
            ({"num_labels": "two", "architectures": ["LlamaForSequenceClassification"]}, "num_labels='two'"),
        ],
    )
    def test_a_wrong_value_is_named_with_what_is_right(self, config, said):
        with pytest.raises(UsageMistake, match=re.escape(said)):
            read_config({**LLAMA, **config})

    def test_layers_of_a_kind_that_is_not_understood(self):
        types = ["full_attention", "linear_attention", "full_attention"]
        with pytest.raises(UsageMistake, match="linear_attention"):
            read_config({**DECODER, "model_type": "qwen3", "layer_types": types})

    def test_as_many_layer_types_as_layers(self):
        with pytest.raises(UsageMistake, match="layer_types has 1 entries; write 3"):
            read_config({**DECODER, "model_type": "qwen3", "layer_types": ["full_attention"]})

    def test_more_experts_for_a_token_than_there_are(self):
        with pytest.raises(UsageMistake, match="num_experts_per_tok=9 cannot be used; write at most 8"):
            read_config({**DECODER, "model_type": "mixtral", "num_experts_per_tok": 9})

    def test_deepseek_v2_does_not_say_how_many_experts_a_token_has(self):
        with pytest.raises(UsageMistake, match="num_experts_per_tok=None"):
            read_config({"model_type": "deepseek_v2"})

    def test_experts_in_some_layers_only_are_not_what_transformers_builds(self):
        with pytest.raises(UsageMistake, match="moe_layer_freq=2"):
            read_config({**DEEPSEEK, "model_type": "deepseek_v3", "moe_layer_freq": 2})

    def test_images_that_are_not_square(self):
        with pytest.raises(UsageMistake, match="image_size"):
            read_config({**VIT, "model_type": "vit", "image_size": [32, 40]})

    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ({"model_type": "mamba2"}, "model_type='mamba2' is not known. Known: llama, "),
            ({"model_type": "lama"}, "Did you mean 'llama'?"),
            ({}, "model_type is missing"),
            ({"model_type": 3}, "model_type=3 is not known"),
        ],
    )
    def test_an_unknown_architecture_is_an_error_that_says_what_a_shape_needs(self, config, said):
        with pytest.raises(UsageMistake, match=re.escape(said)) as raised:
            read_config(config)

        assert "vocab, hidden, layers, heads" in str(raised.value)

    def test_keys_of_older_files_that_change_nothing_are_no_mistake(self):
        # of published files: Llama 3, DeepSeek-V3, Falcon 7B, T5, GPT-2
        old = {"torch_dtype": "bfloat16", "rope_theta": 5e5, "rope_scaling": None, "_name_or_path": "x"}
        assert read_config({**LLAMA, **old, "max_length": 20, "attn_implementation": "sdpa"}).name == "x"
        new = {"ep_size": 1, "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "scoring_func": "sigmoid"}
        read_config({**DEEPSEEK, **new, "model_type": "deepseek_v3", "quantization_config": {"fmt": "e4m3"}})
        read_config({"model_type": "falcon", "apply_residual_connection_post_layernorm": False})
        read_config({**T5, "model_type": "t5", "n_positions": 512, "output_past": True})
        read_config({**GPT2, "model_type": "gpt2", "n_ctx": 50, "task_specific_params": {"x": 1}})
