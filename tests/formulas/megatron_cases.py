"""Published peaks of Megatron-LM's functional tests, and the jobs that their arguments make.

Source: NVIDIA/Megatron-LM (d98e8a64ddf34856e74b24714e3bedb2f5a39553), tests/functional_tests/test_cases: the
arguments of ``model_config.yaml``, and ``golden_values_*.json``: ``allocated_bytes.all.peak`` of the last
rank on 8
A100 or H100. They are read from the collection of measured cases; what it left out of an argument list stands
here.
"""

import json
from pathlib import Path

import pytest
import yaml

from pytest_membudget.scenarios.job import Checkpointing, Degrees, Job, Model

TRUTH = Path(__file__).parents[3] / "shared" / "truth" / "cases.yaml"
#: BERT's word pieces in lower case; on A100, whose values are of 2025-10, the cased ones.
BERT_VOCABULARIES = {"A100": 28996 + 2, "H100": 30522}
_LATENT = {
    "multi-latent-attention": True, "q-lora-rank": 1536, "kv-lora-rank": 512, "qk-head-dim": 128,
    "qk-pos-emb-head-dim": 64, "v-head-dim": 128, "qk-layernorm": True, "normalization": "RMSNorm",
}  # fmt: skip
#: By a part of the case's name.
LEFT_OUT = {
    "te_tp2_pp2_mla": {
        "multi-latent-attention": True, "q-lora-rank": 192, "kv-lora-rank": 64, "qk-head-dim": 16,
        "qk-pos-emb-head-dim": 8, "v-head-dim": 16,
    },
    "qk_layernorm": {"qk-layernorm": True},
    "current_scaling_native_fp8": {"normalization": "RMSNorm"},
    "ep4_etp1_memory_speed": _LATENT,
    "ep4_etp1_selective_recompute": _LATENT,
    "fine_grained_offloading": _LATENT | {"fine-grained-activation-offloading": True},
}  # fmt: skip


def megatron_jobs():
    """Name, job and measured bytes of each case; skips where they are absent."""
    if not TRUTH.exists():
        pytest.skip(f"the measured cases are not here ({TRUTH.name})")
    cases = yaml.load(TRUTH.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["cases"]
    for case in cases:
        if case["id"].startswith("megatron-"):
            yield case["id"].removeprefix("megatron-"), job_of(case), case["measured"]["value"]


def job_of(case):
    """The job of a golden case, as Megatron-LM's arguments say it."""
    arguments = dict(case["args"])
    for part, left_out in LEFT_OUT.items():
        if part in case["id"]:
            arguments |= left_out
    if "bert" in case["id"]:
        arguments["padded-vocab-size"] = BERT_VOCABULARIES[case["gpu"]]
    degrees = degrees_of(arguments, case["gpus"])
    backend = arguments.get(
        "attention-backend", "unfused" if arguments.get("transformer-impl") == "local" else "auto"
    )
    batches = arguments["global-batch-size"] // arguments["micro-batch-size"]
    return Job(
        Model("megatron", case["id"], json.dumps(arguments)),
        "formulas",
        "eager" if backend in ("unfused", "local") else "sdpa",
        micro_batch=arguments["micro-batch-size"],
        sequence=arguments["seq-length"],
        accumulation=batches // degrees.data_parallel_shard_degree,
        checkpointing=Checkpointing(arguments.get("recompute-granularity", "none")),
        degrees=degrees,
    )


def degrees_of(arguments, gpus):
    tensor, pipeline, context = (
        arguments.get(f"{name}-parallel-size", 1) for name in ("tensor-model", "pipeline-model", "context")
    )
    a_chunk = arguments.get("num-layers-per-virtual-pipeline-stage")
    chunks = arguments["num-layers"] // pipeline // a_chunk if a_chunk else 1
    chunks = arguments.get("num-virtual-stages-per-pipeline-rank", chunks)
    return Degrees(
        data_parallel_shard_degree=gpus // (tensor * pipeline * context),
        tensor_parallel_degree=tensor,
        context_parallel_degree=context,
        pipeline_parallel_degree=pipeline,
        expert_parallel_degree=arguments.get("expert-model-parallel-size", 1),
        sequence_parallel=bool(arguments.get("sequence-parallel")),
        pipeline_parallel_schedule="Interleaved1F1B" if chunks > 1 else "1F1B",
        virtual_stages=chunks,
    )
