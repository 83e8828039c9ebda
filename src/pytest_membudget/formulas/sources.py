"""The decoder of a job's model, whichever source says its shape."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from ..errors import UsageMistake
from ..scenarios.job import Model
from .configs import BIASES, read_config
from .decoder import Decoder
from .shapes import read_shape


def _llama3(hidden: int, layers: int, heads: int, intermediate: int) -> Mapping[str, Any]:
    sizes = {"hidden": hidden, "layers": layers, "heads": heads, "intermediate": intermediate}
    return {**sizes, "kv_heads": 8, "vocab": 128256}


#: torchtitan/models/llama3/__init__.py (v0.2.0); ``intermediate``: 2/3 of 4 dim, times the multiplier, up to
#: ``multiple_of``.
_TITAN: Final[Mapping[str, Mapping[str, Any]]] = {
    "8B": _llama3(4096, 32, 32, 14336),
    "70B": _llama3(8192, 80, 64, 28672),
    "405B": _llama3(16384, 126, 128, 53248),
}
#: Arguments of Megatron-LM that move memory and that there is no arithmetic for.
_NOT_KNOWN: Final = (
    *("pipeline-model-parallel-layout", "mtp-num-layers", "microbatch-group-size-per-virtual-pipeline-stage"),
    *("fine-grained-activation-offloading", "decoder-block-spec", "hybrid-override-pattern"),
)
#: GPT-2's byte pairs, which Megatron-LM's tests and examples have.
_GPT2_VOCABULARY: Final = 50257


@lru_cache(maxsize=256)
def decoder_of(model: Model) -> Decoder:
    """The decoder of ``model``. Raises ``UsageMistake`` for a shape that cannot be read."""
    values, where = model.values, f"model.{model.source}"
    if model.source == "config":
        return read_config(values, where)
    if model.source == "shape":
        return read_shape(values, where)
    if model.source == "megatron":
        return _megatron(values, where)
    if isinstance(values, str) and values in _TITAN:
        return read_shape(_TITAN[values], where)
    raise UsageMistake(f"{where} is {values!r}; formulas know {', '.join(_TITAN)}; write model.shape else")


def _megatron(values: Mapping[str, Any], where: str) -> Decoder:
    """The GPT of Megatron-LM's arguments (megatron/training/arguments.py, core_v0.13), with its defaults."""
    for name in ("num-layers", "hidden-size", "num-attention-heads"):
        if name not in values:
            raise UsageMistake(f"{where}: {name} is missing; write it as on Megatron-LM's command line")
    modules = str(values.get("recompute-modules", "core_attn")).strip("[] ")
    for name in _NOT_KNOWN:
        if values.get(name):
            raise UsageMistake(
                f"{where}: formulas do not know {name}; write implementation: megatron, which runs it"
            )
    if modules != "core_attn":
        raise UsageMistake(f"{where}: of recompute-modules formulas know core_attn alone, not {modules}")
    hidden, gated = values["hidden-size"], bool(values.get("swiglu"))
    # arguments.py: int((4 * hidden * 2 / 3) / 64) * 64 with --swiglu
    usual = 4 * hidden * 2 // 3 // 64 * 64 if gated else 4 * hidden
    inner, bias = values.get("ffn-hidden-size", usual), not values.get("disable-bias-linear")
    grouped = values.get("num-query-groups") if values.get("group-query-attention") else None
    learned = values.get("position-embedding-type", "learned_absolute") == "learned_absolute"
    block = values.get("make-vocab-size-divisible-by", 128) * values.get("tensor-model-parallel-size", 1)
    vocab = values.get("vocab-size") or values.get("padded-vocab-size") or _GPT2_VOCABULARY
    has_norms = values.get("qk-layernorm") and not values.get("multi-latent-attention")
    shape = {
        "hidden": hidden,
        "layers": values["num-layers"],
        "heads": values["num-attention-heads"],
        "kv_heads": grouped,
        "head_dim": values.get("kv-channels"),
        "intermediate": inner,
        "vocab": -(-vocab // block) * block,
        "gated": gated,
        "norm": "rms" if values.get("normalization") == "RMSNorm" else "layer",
        "qk_norm": "head" if has_norms else None,
        "positions": values.get("max-position-embeddings", 0) if learned else 0,
        "tied": not values.get("untie-embeddings-and-output-weights"),
        **dict.fromkeys(BIASES, bias),
        "dropout": float(values.get("hidden-dropout", 0.1)) > 0,
        **_experts(values, inner),
        **_latent(values),
    }
    return read_shape(shape, where)


def _experts(values: Mapping[str, Any], inner: int) -> Mapping[str, Any]:
    if not values.get("num-experts"):
        return {}
    written = values.get("moe-layer-freq", 1)
    layers = range(values["num-layers"])
    if isinstance(written, str):  # a Python expression of ones and zeros, as ([0]*3+[1]*58)
        parts = [part.partition("*") for part in written.strip("()").split("+")]
        kinds = [
            kind for digits, _, times in parts for kind in digits.strip("[] ").split(",") * int(times or 1)
        ]
        sparse = [number for number in layers if int(kinds[number])]
    else:
        sparse = [number for number in layers if number % written == 0]
    return {
        "experts": values["num-experts"],
        "experts_per_token": values.get("moe-router-topk", 2),
        "expert_intermediate": values.get("moe-ffn-hidden-size", inner),
        "shared_intermediate": values.get("moe-shared-expert-intermediate-size", 0),
        "router_bias": bool(values.get("moe-router-enable-expert-bias")),
        "expert_layers": sparse,
    }


def _latent(values: Mapping[str, Any]) -> Mapping[str, Any]:
    if not values.get("multi-latent-attention"):
        return {}
    return {
        "query_rank": values.get("q-lora-rank"),
        "kv_rank": values.get("kv-lora-rank", 32),
        "nope_dim": values.get("qk-head-dim", 128),
        "rope_dim": values.get("qk-pos-emb-head-dim", 64),
        "value_dim": values.get("v-head-dim", 128),
        "kv_heads": None,
        "head_dim": None,
    }
