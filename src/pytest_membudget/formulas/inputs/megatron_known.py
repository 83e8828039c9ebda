"""Which of Megatron-LM's arguments are read, which are listed as not modelled, and which are mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ...errors import UsageMistake
from .fields import nearest
from .megatron_names import DEFAULTS, NOT_MODELLED, OF_BERT, REFUSED, WITHOUT_EFFECT

#: Those about the model, each with the default of Megatron's parser: whole numbers, flags and others.
MODEL_SIZES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "num-layers": None,
        "hidden-size": None,
        "num-attention-heads": None,
        "num-query-groups": 1,
        "ffn-hidden-size": None,
        "kv-channels": None,
        "vocab-size": None,
        "padded-vocab-size": None,
        "make-vocab-size-divisible-by": 128,
        "max-position-embeddings": None,
        "num-experts": None,
        "moe-ffn-hidden-size": None,
        "moe-shared-expert-intermediate-size": None,
        "moe-router-topk": 2,
        "mtp-num-layers": None,
        "q-lora-rank": None,
        "kv-lora-rank": 32,
        "qk-head-dim": 128,
        "qk-pos-emb-head-dim": 64,
        "v-head-dim": 128,
        # of the job too: the vocabulary is padded to it
        "tensor-model-parallel-size": 1,
    }
)
MODEL_FLAGS: Final = frozenset(
    {
        "group-query-attention", "swiglu", "squared-relu", "quick-geglu",
        "untie-embeddings-and-output-weights", "disable-bias-linear", "add-qkv-bias", "qk-layernorm",
        "multi-latent-attention", "use-rotary-position-embeddings", "moe-shared-expert-gate",
        "moe-router-enable-expert-bias", "bert-no-binary-head",
    }
)  # fmt: skip
MODEL_OTHERS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "hidden-dropout": 0.1, "attention-dropout": 0.1, "normalization": "LayerNorm",
        "position-embedding-type": "learned_absolute", "rotary-percent": 1.0, "moe-layer-freq": 1,
        "window-size": None, "softmax-type": "vanilla",
    }
)  # fmt: skip
#: Those about anything else, in the same order.
JOB_SIZES: Final[Mapping[str, object]] = MappingProxyType(
    {
        "micro-batch-size": 1, "global-batch-size": None, "seq-length": None, "tensor-model-parallel-size": 1,
        "pipeline-model-parallel-size": 1, "context-parallel-size": 1, "expert-model-parallel-size": 1,
        "expert-tensor-parallel-size": None, "num-layers-per-virtual-pipeline-stage": None,
        "num-virtual-stages-per-pipeline-rank": None,
        "microbatch-group-size-per-virtual-pipeline-stage": None, "num-distributed-optimizer-instances": 1,
        "recompute-num-layers": None, "decoder-first-pipeline-num-layers": None,
        "decoder-last-pipeline-num-layers": None,
    }
)  # fmt: skip
JOB_FLAGS: Final = frozenset(
    {
        "sequence-parallel", "use-distributed-optimizer", "bf16", "fp16", "no-gradient-accumulation-fusion",
        "no-masked-softmax-fusion", "no-bias-gelu-fusion", "no-bias-swiglu-fusion", "no-bias-dropout-fusion",
        "attention-softmax-in-fp32", "apply-query-key-layer-scaling",
        "no-create-attention-mask-in-dataloader", "accumulate-allreduce-grads-in-fp32", "grad-reduce-in-bf16",
        "recompute-activations", "distribute-saved-activations", "account-for-embedding-in-pipeline-split",
        "account-for-loss-in-pipeline-split", "moe-grouped-gemm", "fp8-param-gather",
        "fine-grained-activation-offloading",
    }
)  # fmt: skip
JOB_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "transformer-impl": "transformer_engine", "attention-backend": "auto", "recompute-granularity": "",
        "recompute-method": "", "recompute-modules": "", "moe-token-dispatcher-type": "allgather",
        "moe-router-dtype": "", "pipeline-model-parallel-layout": "", "offload-modules": "", "fp8-format": "",
        "fp8-recipe": "delayed",
    }
)  # fmt: skip
OF_THE_MODEL: Final = MODEL_SIZES.keys() | MODEL_FLAGS | MODEL_OTHERS.keys()
OF_THE_JOB: Final = JOB_SIZES.keys() | JOB_FLAGS | JOB_WORDS.keys()
_KNOWN: Final = OF_THE_MODEL | OF_THE_JOB | REFUSED | NOT_MODELLED | OF_BERT | WITHOUT_EFFECT
#: Of a tokenizer's type: BERT's word pieces.
_BERT: Final = "Bert"


def plain_name(key: str) -> str:
    """The argument's name without dashes before it, with dashes in it."""
    return key.removeprefix("--").replace("_", "-")


def check_names(arguments: Mapping[str, object], where: str, *, is_bert: bool = False) -> None:
    """Raise ``UsageMistake`` for an argument that Megatron-LM does not have, or that no formula covers."""
    for name in sorted(arguments.keys() - _KNOWN):
        known = f"Megatron-LM has no argument {name}.{nearest(name, _KNOWN)}"
        raise UsageMistake(f"{where}: {known}")
    for name in _in_force(arguments, REFUSED):
        raise UsageMistake(
            f"{where}: {name}={arguments[name]!r} changes what a rank holds, and no formula has it; run the "
            "step itself in a marked test, or leave it out"
        )
    for name in () if is_bert else _of_bert(arguments):
        raise UsageMistake(
            f"{where}: {name}={arguments[name]!r} is of pretrain_bert.py, and these formulas are of "
            "pretrain_gpt.py; run the step itself in a marked test, or leave it out"
        )


def not_modelled(arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The arguments that change what is in memory and that no formula reads: a line each, for reports."""
    return tuple(
        f"{name}={arguments[name]}, of Megatron-LM's arguments" for name in _in_force(arguments, NOT_MODELLED)
    )


def _of_bert(arguments: Mapping[str, object]) -> Iterator[str]:
    yield from _in_force(arguments, OF_BERT)
    if str(arguments.get("tokenizer-type", "")).startswith(_BERT):
        yield "tokenizer-type"


def _in_force(arguments: Mapping[str, object], names: frozenset[str]) -> Iterator[str]:
    """Those of ``names`` that are given a value which changes something."""
    for name in sorted(names & arguments.keys()):
        value = arguments[name]
        text = value.lower() if isinstance(value, str) else value
        if text not in (None, False, 0, "", "false", "none", [], DEFAULTS.get(name)):
            yield name
