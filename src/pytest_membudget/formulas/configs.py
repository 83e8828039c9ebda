"""Decoders from Hugging Face ``config.json`` files. Defaults are those of transformers 5.23.0's classes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import UsageMistake
from ..user_input.nodes import nearest
from .decoder import Decoder
from .shapes import read_shape

Values = Mapping[str, Any]

#: Keys of a configuration, and what a shape calls them.
_NAMES: Final = {
    "vocab_size": "vocab", "hidden_size": "hidden", "intermediate_size": "intermediate",
    "num_hidden_layers": "layers", "num_attention_heads": "heads", "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim", "tie_word_embeddings": "tied", "num_experts_per_tok": "experts_per_token",
    "moe_intermediate_size": "expert_intermediate", "mlp_bias": "mlp_bias",
}  # fmt: skip
#: GPT-2's and GPT-J's names.
_GPT_NAMES: Final = {
    "n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
}  # fmt: skip
_TEXT: Final = {"gemma3": "gemma3_text", "llama4": "llama4_text"}
BIASES: Final = ("mlp_bias", "qkv_bias", "output_bias")
_PLAIN: Final[Values] = {"gated": False, "norm": "layer", "mlp_bias": True}
_BIASED: Final[Values] = {"qkv_bias": True, "output_bias": True}


def _usual(values: Values) -> Values:
    bias = bool(values.get("attention_bias"))
    return {"qkv_bias": bias, "output_bias": bias}


def _with(*parts: Values) -> Callable[[Values], Values]:
    """The usual keys, and what the class has whatever the configuration says."""
    return lambda values: {name: value for part in (_usual(values), *parts) for name, value in part.items()}


def _mixtral(values: Values) -> Values:
    return {"experts": values["num_local_experts"], "expert_intermediate": values["intermediate_size"]}


def _qwen_moe(values: Values) -> Values:
    dense, step = values.get("mlp_only_layers") or (), values["decoder_sparse_step"]
    layers = range(values["num_hidden_layers"])
    sparse = [number for number in layers if number not in dense and (number + 1) % step == 0]
    found = {**_usual(values), "experts": values["num_experts"], "expert_layers": sparse}
    if "shared_expert_intermediate_size" not in values:
        return {**found, "qk_norm": "head"}
    shared = values["shared_expert_intermediate_size"]
    return {**found, "qkv_bias": values["qkv_bias"], "shared_intermediate": shared, "shared_gate": True}


def _deepseek(values: Values) -> Values:
    """Without the layers for further tokens, which transformers' class drops: 671B and not 685B."""
    return {
        **_usual(values),
        "router_bias": values["model_type"] == "deepseek_v3",  # a correction an expert, without a gradient
        "kv_heads": None,
        "head_dim": None,
        "experts": values["n_routed_experts"],
        "dense_layers": min(values["first_k_dense_replace"], values["num_hidden_layers"]),
        "shared_intermediate": values["n_shared_experts"] * values["moe_intermediate_size"],
        "query_rank": values["q_lora_rank"],
        "kv_rank": values["kv_lora_rank"],
        "rope_dim": values["qk_rope_head_dim"],
        "nope_dim": values["qk_nope_head_dim"],
        "value_dim": values["v_head_dim"],
    }


def _gpt_oss(values: Values) -> Values:
    width = values["intermediate_size"]
    count = {"experts": values["num_local_experts"], "expert_intermediate": width}
    return {**_usual(values), **count, "expert_bias": True, "router_bias": True, "sinks": True}


def _llama4(values: Values) -> Values:
    width, layers = values["intermediate_size"], values["num_hidden_layers"]
    step = values["interleave_moe_layer_step"]
    return {
        **_usual(values),
        "experts": values["num_local_experts"],
        "expert_intermediate": width,
        "shared_intermediate": width,
        "dense_intermediate": values["intermediate_size_mlp"],
        "expert_layers": values.get("moe_layers") or list(range(step - 1, layers, step)),
    }


def _gpt2(values: Values) -> Values:
    return {**_PLAIN, **_BIASED, "positions": values["n_positions"], "dropout": values["resid_pdrop"] > 0}


def _opt(values: Values) -> Values:
    """Learned positions from the third row on; 350M has a narrower embedding, and norms behind its blocks."""
    bias = values["enable_bias"]
    narrow = values["word_embed_proj_dim"] or 0
    return {
        **_PLAIN,
        **dict.fromkeys(BIASES, bias),
        "positions": values["max_position_embeddings"] + 2,
        "embedding_dim": narrow if narrow != values["hidden_size"] else 0,
        "final_norm": values["do_layer_norm_before"],
        "intermediate": values["ffn_dim"],
    }


def _falcon(values: Values) -> Values:
    bias, is_new, heads = values["bias"], values["new_decoder_architecture"], values["num_attention_heads"]
    norms = values["num_ln_in_parallel_attn"] or (2 if is_new else 1)
    grouped = values["num_kv_heads"] or heads if is_new else 1 if values["multi_query"] else heads
    return {
        **_PLAIN,
        **dict.fromkeys(BIASES, bias),
        "kv_heads": grouped,
        "norms": 2 if not values["parallel_attn"] or norms == 2 else 1,
        "intermediate": values["ffn_hidden_size"] or 4 * values["hidden_size"],
    }


def _keys(vocab: int, hidden: int, inner: int, layers: int, heads: int, **more: Any) -> Values:
    sizes = {"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner}
    rest = {"num_hidden_layers": layers, "num_attention_heads": heads, "tie_word_embeddings": False}
    return {**sizes, **rest, **more}


_GROUPED: Final = {"num_key_value_heads": 8}
_GEMMA: Final = {"head_dim": 256, "tie_word_embeddings": True}
_FOUR_NORMS: Final = {"norms": 4}
_QWEN_EXPERTS: Final = {"decoder_sparse_step": 1, "mlp_only_layers": None}
_DEEPSEEK: Final = {
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "moe_layer_freq": 1,
}  # fmt: skip
# fmt: off
_FAMILIES: Final[Mapping[str, tuple[Values, Callable[[Values], Values]]]] = {
    "llama": (_keys(32000, 4096, 11008, 32, 32, mlp_bias=False), _usual),
    "mistral": (_keys(32000, 4096, 14336, 32, 32, **_GROUPED), _usual),
    "qwen2": (_keys(151936, 4096, 22016, 32, 32, num_key_value_heads=32), _with({"qkv_bias": True,
        "output_bias": False})),
    "qwen3": (_keys(151936, 4096, 22016, 32, 32, num_key_value_heads=32, head_dim=128),
        _with({"qk_norm": "head"})),
    "smollm3": (_keys(128256, 2048, 11008, 36, 16, num_key_value_heads=4, tie_word_embeddings=True), _usual),
    "olmo2": (_keys(50304, 4096, 11008, 32, 32), _with({"qk_norm": "projection"})),
    "phi3": (_keys(32064, 3072, 8192, 32, 32), _with()),
    "gemma": (_keys(256000, 3072, 24576, 28, 16, num_key_value_heads=16, **_GEMMA), _usual),
    "gemma2": (_keys(256000, 2304, 9216, 26, 8, num_key_value_heads=4, **_GEMMA), _with(_FOUR_NORMS)),
    "gemma3_text": (_keys(262208, 2304, 9216, 26, 8, num_key_value_heads=4, **_GEMMA), _with(_FOUR_NORMS,
        {"qk_norm": "head"})),
    "mixtral": (_keys(32000, 4096, 14336, 32, 32, num_local_experts=8, num_experts_per_tok=2, **_GROUPED),
        _mixtral),
    "qwen2_moe": (_keys(151936, 2048, 5632, 24, 16, num_key_value_heads=16, num_experts=60,
        num_experts_per_tok=4,
        moe_intermediate_size=1408, shared_expert_intermediate_size=5632, qkv_bias=True, **_QWEN_EXPERTS),
        _qwen_moe),
    "qwen3_moe": (_keys(151936, 2048, 6144, 24, 32, num_key_value_heads=4, num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768, **_QWEN_EXPERTS), _qwen_moe),
    "deepseek_v2": (_keys(102400, 4096, 11008, 32, 32, first_k_dense_replace=0, n_routed_experts=64,
        n_shared_experts=2, moe_intermediate_size=1407, num_experts_per_tok=0, **_DEEPSEEK), _deepseek),
    "deepseek_v3": (_keys(129280, 7168, 18432, 61, 128, first_k_dense_replace=3, n_routed_experts=256,
        n_shared_experts=1, moe_intermediate_size=2048, num_experts_per_tok=8, **_DEEPSEEK), _deepseek),
    "gpt_oss": (_keys(201088, 2880, 2880, 36, 64, head_dim=64, attention_bias=True, num_local_experts=128,
        num_experts_per_tok=4, **_GROUPED), _gpt_oss),
    "llama4_text": (_keys(202048, 5120, 8192, 48, 40, head_dim=128, intermediate_size_mlp=16384,
        num_local_experts=16,
        num_experts_per_tok=1, moe_layers=None, interleave_moe_layer_step=1, **_GROUPED), _llama4),
    "gpt2": (_keys(50257, 768, 0, 12, 12, n_positions=1024, resid_pdrop=0.1, tie_word_embeddings=True),
        _gpt2),
    "gptj": (_keys(50400, 4096, 0, 28, 16), _with(_PLAIN, {"norms": 1, "head_bias": True})),
    "gpt_neox": (_keys(50432, 6144, 24576, 44, 64, attention_bias=True), _with(_PLAIN)),
    "phi": (_keys(51200, 2048, 8192, 24, 32), _with(_PLAIN, _BIASED, {"norms": 1, "head_bias": True})),
    "falcon": (_keys(65024, 4544, 0, 32, 71, tie_word_embeddings=True, num_ln_in_parallel_attn=None,
        bias=False,
        new_decoder_architecture=False, num_kv_heads=None, multi_query=True, parallel_attn=True,
        ffn_hidden_size=None), _falcon),
    "opt": (_keys(50272, 768, 0, 12, 12, ffn_dim=3072, max_position_embeddings=2048,
        do_layer_norm_before=True,
        word_embed_proj_dim=None, enable_bias=True, tie_word_embeddings=True), _opt),
}
# fmt: on


def read_config(config: Values, where: str = "config.json") -> Decoder:
    """The decoder that transformers builds of ``config``; absent keys have its class's defaults.

    Of a model of text and images the text's part is read alone; quantised weights as if they were not.
    Raises ``UsageMistake`` for a ``model_type`` that is not a decoder of the list, and for wrong values.
    """
    text = config.get("text_config")
    if isinstance(text, Mapping):
        kind = str(config.get("model_type"))
        return read_config({"model_type": _TEXT.get(kind, kind), **text}, f"{where}.text_config")
    kind = str(config.get("model_type"))
    if kind not in _FAMILIES:
        near = nearest(kind, tuple(_FAMILIES))
        hint = f"did you mean {near}?" if near else f"known are {', '.join(_FAMILIES)}"
        raise UsageMistake(
            f"{where}: model_type {kind!r} is no decoder that formulas know; {hint}, or write model.shape"
        )
    usual, shape_of = _FAMILIES[kind]
    given = {_GPT_NAMES.get(key, key): value for key, value in config.items()}
    values = {**usual, **{key: value for key, value in given.items() if value is not None or key in usual}}
    shape = {name: values[key] for key, name in _NAMES.items() if key in values} | dict(shape_of(values))
    if not shape["intermediate"]:
        shape["intermediate"] = 4 * shape["hidden"]
    return read_shape(shape, where)
