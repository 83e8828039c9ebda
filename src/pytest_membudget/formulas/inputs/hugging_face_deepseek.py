"""DeepSeek-V2 and -V3, from their Hugging Face configurations (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Attention, Experts, LatentAttention, Layer, Model
from .fields import Fields
from .hugging_face_decoders import RMS, feed_forward_of, usual_defaults
from .hugging_face_experts import ROUTER_IGNORED, experts_per_token
from .hugging_face_family import DECODER_TASKS, GENERIC_TASKS, Family, Head, decoder


def _deepseek(fields: Fields, head: Head) -> Model:
    """Latent attention; the first layers are dense, the others have shared and routed experts.

    DeepSeek-V3's layers for further tokens (``num_nextn_predict_layers``) are not in transformers' class,
    which drops their weights, and so not in the model: 671B and not 685B.
    """
    is_third = head.architecture.startswith("DeepseekV3")
    attention = _latent_attention(fields)
    bias = not is_third and fields.flag("mlp_bias")
    dense = feed_forward_of(fields, bias=bias)
    count, width = fields.size("n_routed_experts"), fields.size("moe_intermediate_size")
    shared = fields.size("n_shared_experts", least=0)
    experts = Experts(
        count,
        experts_per_token(fields, count),
        width,
        shared_intermediate=shared * width,
        router_bias=is_third,
        activation=fields.text("hidden_act"),
        shared_bias=bias,
    )
    layers, first = fields.size("num_hidden_layers"), fields.size("first_k_dense_replace", least=0)
    if fields.optional("moe_layer_freq") not in (None, 1):
        raise fields.wrong(
            "moe_layer_freq", "1: transformers' class has experts in every layer after the first ones"
        )
    dense_count = min(first, layers)
    both = ((Layer(attention, dense), dense_count), (Layer(attention, experts), layers - dense_count))
    groups = tuple((layer, number) for layer, number in both if number)
    return decoder(fields, head, groups, norm=RMS)


def _latent_attention(fields: Fields) -> Attention:
    rope, nope = fields.size("qk_rope_head_dim"), fields.size("qk_nope_head_dim")
    latent = LatentAttention(
        query_rank=fields.optional_size("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        rope_dim=rope,
        nope_dim=nope,
    )
    heads, bias = fields.size("num_attention_heads"), fields.flag("attention_bias")
    return Attention(
        heads,
        heads,
        rope + nope,
        value_dim=fields.size("v_head_dim"),
        qkv_bias=bias,
        output_bias=bias,
        latent=latent,
        rotary_dim=rope,
        dropout=fields.probability("attention_dropout"),
    )


_DEEPSEEK_IGNORED: Final = ROUTER_IGNORED | {
    "pretraining_tp", "num_key_value_heads", "n_group", "topk_group", "routed_scaling_factor",
    "norm_topk_prob",
}  # fmt: skip
_DEEPSEEK_LEGACY: Final = frozenset({
    "aux_loss_alpha", "seq_aux", "scoring_func", "ep_size", "topk_method", "num_nextn_predict_layers",
    "head_dim", "qk_head_dim",
})  # fmt: skip


def _deepseek_defaults(**values: object) -> dict[str, object]:
    defaults = usual_defaults(**values)
    del defaults["num_key_value_heads"]  # latent attention has as many as queries
    return defaults


# fmt: off
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "deepseek_v2": Family(
            "DeepseekV2", _deepseek_defaults(vocab_size=102400, hidden_size=4096, intermediate_size=11008,
            num_hidden_layers=32, num_attention_heads=32, max_position_embeddings=2048, attention_bias=False,
            mlp_bias=False, first_k_dense_replace=0, kv_lora_rank=512, q_lora_rank=1536, n_routed_experts=64,
            n_shared_experts=2, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
            num_experts_per_tok=None, moe_intermediate_size=1407),
            _DEEPSEEK_IGNORED | {"topk_method", "head_dim"}, _deepseek, DECODER_TASKS,
            extras={"moe_layer_freq": None}, legacy=_DEEPSEEK_LEGACY, aliases={"num_experts":
            "n_routed_experts"},
        ),
        "deepseek_v3": Family(
            "DeepseekV3", _deepseek_defaults(vocab_size=129280, hidden_size=7168, intermediate_size=18432,
            num_hidden_layers=61, num_attention_heads=128, max_position_embeddings=4096, attention_bias=False,
            first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536, n_routed_experts=256,
            n_shared_experts=1, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
            num_experts_per_tok=8, moe_intermediate_size=2048),
            _DEEPSEEK_IGNORED | {"rope_interleave", "num_mtp_layers"}, _deepseek, GENERIC_TASKS,
            extras={"moe_layer_freq": None}, legacy=_DEEPSEEK_LEGACY, aliases={"num_local_experts":
            "n_routed_experts"},
        ),
    }
)
# fmt: on
