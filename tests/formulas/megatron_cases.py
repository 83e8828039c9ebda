"""Published peaks of Megatron-LM's functional tests, and the jobs that their arguments make.

The arguments of a case are those of its ``model_config.yaml`` in NVIDIA/Megatron-LM
(d98e8a64ddf34856e74b24714e3bedb2f5a39553) as the collection of cases has them; what it left out stands here,
from the same file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pytest_membudget.formulas.inputs.megatron_arguments import read_megatron
from pytest_membudget.formulas.megatron_job import megatron_job

TRUTH = Path(__file__).parents[3] / "shared" / "truth" / "cases.yaml"

#: The tests' tokenizers: GPT-2's byte pairs, BERT's word pieces in lower case.
VOCABULARIES = {"gpt": 50257, "bert": 30522}
#: Until its own tokenizers went (#2946, 3257093930, 2026-02-09) Megatron-LM read BERT's vocabulary from the
#: file of ``--vocab-file``, which is not public. By its size it was the cased one: 28,996 pieces, [BOS] and
#: [EOS] (``_BertWordPieceTokenizer``, megatron/training/tokenizer/tokenizer.py). On A100 the values are still
#: those of 2025-10 (adc69dba2d); on H100 they were renewed with PyTorch 26.02 (f5b2ec0130, 2026-03-05).
CASED = 28996 + 2

_LATENT = {
    "multi-latent-attention": True, "q-lora-rank": 1536, "kv-lora-rank": 512, "qk-head-dim": 128,
    "qk-pos-emb-head-dim": 64, "v-head-dim": 128, "qk-layernorm": True, "normalization": "RMSNorm",
    "attention-dropout": 0.0,
}  # fmt: skip
#: By a part of the case's name.
LEFT_OUT = {
    "te_tp2_pp2_mla": {
        "multi-latent-attention": True,
        "q-lora-rank": 192,
        "kv-lora-rank": 64,
        "qk-head-dim": 16,
        "qk-pos-emb-head-dim": 8,
        "v-head-dim": 16,
    },
    "qk_layernorm": {"qk-layernorm": True},
    "no_create_attention_mask": {"no-create-attention-mask-in-dataloader": True},
    "gpt3_mcore_te_tp2_pp2_cp2": {"attention-dropout": 0.0},
    "gpt3_mcore_cp2_pp2_ep2": {"attention-dropout": 0.0},
    "current_scaling_native_fp8": {"normalization": "RMSNorm"},
    "ep4_etp1_memory_speed": _LATENT,
    "ep4_etp1_selective_recompute": _LATENT,
    "fine_grained_offloading": _LATENT
    | {
        "fine-grained-activation-offloading": True,
        "offload-modules": "[expert_fc1 moe_act attn_norm mlp_norm qkv_linear core_attn attn_proj]",
    },
    "scoped_cudagraph": {"attention-dropout": 0.0},
}


def megatron_cases(grade):
    """The golden cases of ``grade`` as test parameters; where they are absent, one that is skipped."""
    if not TRUTH.exists():
        absent = pytest.mark.skip(reason=f"the measured cases are not here ({TRUTH.name})")
        return [pytest.param({}, id="absent", marks=absent)]
    cases = yaml.load(TRUTH.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["cases"]
    return [
        pytest.param(case, id=name_of(case))
        for case in cases
        if case["id"].startswith("megatron-") and case["grade"] == grade
    ]


def name_of(case):
    return case["id"].removeprefix("megatron-")


def job_of(case):
    """The job of a golden case."""
    arguments = dict(case["args"])
    for part, left_out in LEFT_OUT.items():
        if part in case["id"]:
            arguments |= left_out
    kind = "bert" if name_of(case).startswith("bert") else "gpt"
    is_old_bert = kind == "bert" and case["gpu"] == "A100"
    vocabulary = CASED if is_old_bert else VOCABULARIES[kind]
    model, rest = read_megatron(arguments, kind=kind, tokenizer_vocab=vocabulary)
    return megatron_job(
        model, rest, gpus=case["gpus"], gpu=f"{case['gpu']}-80GB", environment=case.get("env")
    )
