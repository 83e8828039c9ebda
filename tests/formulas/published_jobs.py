"""Published peaks of jobs that formulas can say: none of them was used to write or to fit a formula.

An entry is a figure that somebody measured on a GPU and published, in bytes, and the job that it was measured
of
as far as the source says it. Where a choice of a formula was
looked up in such a job's code, ``SEEN`` names it: the errors of docs/accuracy.md are those of the others.
"""

import json
from dataclasses import dataclass

from pytest_membudget.scenarios.job import (
    Adapter,
    Checkpointing,
    Degrees,
    Generation,
    Job,
    Loss,
    Model,
    Optimizer,
    Precision,
)

MIB, GIB, GB = 2**20, 2**30, 10**9


@dataclass(frozen=True)
class PublishedJob:
    """One measured peak."""

    kind: str
    id: str
    job: Job
    measured_bytes: float
    """Allocated or active; 0 where the source says reserved alone."""
    source: str
    reserved_bytes: float = 0


def shape(name, **values):
    return Model("shape", name, json.dumps(values))


LLAMA3_8B = Model("torchtitan", "8B", json.dumps("8B"))
LLAMA3_70B = Model("torchtitan", "70B", json.dumps("70B"))
LLAMA3_405B = Model("torchtitan", "405B", json.dumps("405B"))
LLAMA32_3B = shape(
    "Llama 3.2 3B", hidden=3072, layers=28, heads=24, kv_heads=8, intermediate=8192, vocab=128256, tied=True
)
LLAMA2_7B = shape("Llama 2 7B", hidden=4096, layers=32, heads=32, intermediate=11008, vocab=32000)
LLAMA2_13B = shape("Llama 2 13B", hidden=5120, layers=40, heads=40, intermediate=13824, vocab=32000)
PHI = shape(
    "phi-1.5", hidden=2048, layers=24, heads=32, intermediate=8192, vocab=51200, gated=False, norm="layer",
    norms=1, qkv_bias=True, output_bias=True, mlp_bias=True, head_bias=True,
)  # fmt: skip
STABLELM = shape(
    "StableLM Alpha 3B", hidden=4096, layers=16, heads=32, intermediate=16384, vocab=50688, gated=False,
    norm="layer", qkv_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip


def cs336(hidden, layers, heads, inner):
    return shape("cs336", hidden=hidden, layers=layers, heads=heads, intermediate=inner, vocab=10000)


MEDIUM, SMALL, LARGE = cs336(1024, 24, 16, 4096), cs336(768, 12, 12, 3072), cs336(2560, 32, 32, 10240)
FP32, AUTOCAST = Precision("pure", "fp32"), Precision("autocast", "fp32", "bf16")
FSDP = Precision("fsdp", "fp32", "bf16", "fp32")
#: an optimizer written as a loop over parameters
LOOP, FUSED = Optimizer(implementation="loop"), Optimizer(implementation="fused")
FULL, PER_OPERATOR = Checkpointing("full"), Checkpointing("per_operator")


def job(model, sequence, micro_batch=1, **more):
    return Job(model, "formulas", sequence=sequence, micro_batch=micro_batch, **more)


def one_gpu(id, measured_bytes, source, job, reserved_bytes=0):
    return PublishedJob("one GPU", id, job, measured_bytes, source, reserved_bytes)


_TUNE = "pytorch/torchtune@1814feb README.md, recipes/full_finetune_single_device.py"
_CS336 = "Wedsonlin/assignment2-systems@8630bcfe snapshots"
_KKAITLYN = "kkaitlyn111's snapshots of the same assignment, one process for all sizes"
ONE_GPU = [
    one_gpu("tune-l32-3b-packed", 60.0 * GIB, _TUNE, job(LLAMA32_3B, 4096, 2, optimizer=FUSED)),
    one_gpu(
        "tune-l32-3b-compile", 51.0 * GIB, _TUNE, job(LLAMA32_3B, 4096, 2, optimizer=FUSED, compiled=True)
    ),
    one_gpu(
        "tune-l32-3b-chunked-ce",
        42.9 * GIB,
        _TUNE,
        job(LLAMA32_3B, 4096, 2, optimizer=FUSED, compiled=True, loss=Loss("chunked")),
    ),
    one_gpu(
        "tune-l32-3b-act-ckpt",
        24.9 * GIB,
        _TUNE,
        job(LLAMA32_3B, 4096, 2, optimizer=FUSED, compiled=True, loss=Loss("chunked"), checkpointing=FULL),
    ),
    one_gpu(
        "ao-llama2-7b-bnb-8-bit",
        39.3 * GIB,
        "pytorch/ao@1e7f132e3 torchao/prototype/low_bit_optim/README.md",
        job(LLAMA2_7B, 1304, 2, optimizer=Optimizer(library="bitsandbytes", bits=8), checkpointing=FULL),
    ),
    one_gpu(
        "snap-wedsonlin-medium-ctx128-training",
        6701.0942 * MIB,
        _CS336,
        job(MEDIUM, 128, 4, precision=FP32, optimizer=LOOP, attention="eager"),
        6900.0 * MIB,
    ),
    one_gpu(
        "snap-wedsonlin-medium-ctx1024-training",
        23092.1924 * MIB,
        _CS336,
        job(MEDIUM, 1024, 4, precision=AUTOCAST, optimizer=LOOP, attention="eager"),
        24012.0 * MIB,
    ),
    one_gpu(
        "snap-kkaitlyn-2.7b-full128",
        52527.4282 * MIB,
        _KKAITLYN,
        job(LARGE, 128, 4, precision=FP32, optimizer=LOOP, attention="eager"),
        58280.0 * MIB,
    ),
]


def lora(id, gb, model, tokens, micro_batch, base=None, gpus=1, checkpointing=None):
    adapter = Adapter("qlora" if base else "lora", 8, ("q_proj", "v_proj"), base)
    degrees = Degrees(data_parallel_shard_degree=gpus)
    made = job(
        model,
        tokens,
        micro_batch,
        adapter=adapter,
        degrees=degrees,
        checkpointing=checkpointing or Checkpointing(),
    )
    source = "Lightning-AI/litgpt@0cc02afa tutorials/resource-tables.md, finetune/lora.py"
    return PublishedJob("adapters", f"litgpt-lora-{id}", made, gb * GB, source)


ADAPTERS = [
    lora("phi-1.5-none-mb2", 6.76, PHI, 1044, 2),
    lora("phi-1.5-nf4-mb1", 3.78, PHI, 1044, 1, "nf4"),
    lora("phi-1.5-nf4-dq-mb1", 3.72, PHI, 1044, 1, "nf4-double"),
    lora("StableLM_Alpha_3B-none-mb1", 9.69, STABLELM, 1034, 1),
    lora("StableLM_Alpha_3B-none-mb4", 16.92, STABLELM, 1034, 4),
    lora("StableLM_Alpha_3B-nf4-mb1", 6.35, STABLELM, 1034, 1, "nf4"),
    lora("Llama_2_7B-none-mb1", 21.30, LLAMA2_7B, 1304, 1),
    lora("Llama_2_7B-none-mb2", 29.07, LLAMA2_7B, 1304, 2),
    lora("Llama_2_7B-nf4-dq-mb1", 13.84, LLAMA2_7B, 1304, 1, "nf4-double"),
    lora("Llama_2_13B-none-mb1", 38.12, LLAMA2_13B, 1304, 1),
]


def titan(id, gib, model, sequence, micro_batch, source, shards, active=0, **more):
    degrees = Degrees(data_parallel_shard_degree=shards, **more.pop("degrees", {}))
    made = job(model, sequence, micro_batch, precision=FSDP, degrees=degrees, **more)
    return PublishedJob("sharded", id, made, active * GIB, source, gib * GIB)


_TITAN = "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md (9dec370)"
_AO = "pytorch/ao docs/source/workflows/training.md"
FOUR_D = {"tensor_parallel_degree": 8, "pipeline_parallel_degree": 8, "sequence_parallel": True}
SHARDED = [
    titan("titan-l3-8b-8gpu-fsdp", 82.4, LLAMA3_8B, 8192, 2, _TITAN, 8, checkpointing=PER_OPERATOR),
    titan("titan-l3-8b-128gpu-fsdp", 67.0, LLAMA3_8B, 8192, 2, _TITAN, 128, checkpointing=PER_OPERATOR),
    titan(
        "titan-l3-8b-cp2",
        84.2,
        LLAMA3_8B,
        65536,
        1,
        _TITAN,
        4,
        checkpointing=FULL,
        compiled=True,
        degrees={"context_parallel_degree": 2},
    ),
    titan(
        "titan-l3-8b-cp4",
        84.0,
        LLAMA3_8B,
        131072,
        1,
        _TITAN,
        2,
        checkpointing=FULL,
        compiled=True,
        degrees={"context_parallel_degree": 4},
    ),
    titan(
        "titan-l3-8b-cp8",
        84.5,
        LLAMA3_8B,
        262144,
        1,
        _TITAN,
        1,
        checkpointing=FULL,
        compiled=True,
        degrees={"context_parallel_degree": 8},
    ),
    titan(
        "titan-l3-70b-2d-asynctp",
        67.6,
        LLAMA3_70B,
        8192,
        16,
        _TITAN,
        32,
        checkpointing=FULL,
        compiled=True,
        degrees={"tensor_parallel_degree": 8, "sequence_parallel": True},
    ),
    titan(
        "titan-l3-405b-4d-cp1",
        75.3,
        LLAMA3_405B,
        32768,
        1,
        _TITAN,
        8,
        checkpointing=FULL,
        compiled=True,
        accumulation=8,
        degrees=FOUR_D,
    ),
    titan(
        "titan-l3-405b-4d-cp2",
        75.9,
        LLAMA3_405B,
        65536,
        1,
        _TITAN,
        4,
        checkpointing=FULL,
        compiled=True,
        accumulation=8,
        degrees={**FOUR_D, "context_parallel_degree": 2},
    ),
    titan(
        "titan-l3-8b-h200-8nodes",
        46.97,
        LLAMA3_8B,
        8192,
        2,
        "pytorch/torchtitan benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md",
        64,
        checkpointing=PER_OPERATOR,
        compiled=True,
    ),
    titan(
        "titan-pr382-with-pr",
        68.09,
        LLAMA3_8B,
        8192,
        2,
        "pytorch/torchtitan pull/382",
        8,
        checkpointing=PER_OPERATOR,
        compiled=True,
        optimizer=FUSED,
    ),
    titan(
        "titan-pr165-fsdp1-ac",
        32.14,
        LLAMA2_7B,
        2048,
        8,
        "pytorch/torchtitan pull/165",
        8,
        23.58,
        checkpointing=FULL,
    ),
    titan(
        "titan-pr165-fsdp2-sac",
        59.41,
        LLAMA2_7B,
        2048,
        8,
        "pytorch/torchtitan pull/165",
        8,
        49.54,
        checkpointing=PER_OPERATOR,
    ),
    titan(
        "ao-l3-8b-h100-bf16",
        47.65,
        LLAMA3_8B,
        8192,
        1,
        _AO,
        8,
        checkpointing=PER_OPERATOR,
        compiled=True,
    ),
]


def generated(id, mib, reserved_mib, tokens, precision=FP32):
    made = job(
        MEDIUM, 1, 4, precision=precision, attention="eager", generation=Generation(tokens, 0), optimizer=LOOP
    )
    return PublishedJob("inference", id, made, mib * MIB, _CS336, reserved_mib * MIB)


#: forwards without a cache, whose logits are those of all tokens
INFERENCE = [
    generated("snap-wedsonlin-medium-ctx128-inference", 1658.3711, 1682.0, 128),
    generated("snap-wedsonlin-medium-ctx512-inference", 1860.9141, 1890.0, 512, AUTOCAST),
    generated("snap-wedsonlin-medium-ctx1024-inference", 2746.0117, 3056.0, 1024),
]
INFERENCE.append(
    PublishedJob(
        "inference",
        "ao-infer-base-bf16-llama-3.1-8b",
        job(LLAMA3_8B, 1, generation=Generation(6, 200, "static")),
        0,
        "pytorch/ao@bc000aafb torchao/quantization/README.md, torchao/_models/llama/generate.py",
        16.35 * GB,
    )
)
LLAMA4 = Model("config", "llama4-2-layers", json.dumps({"model_type": "llama4_text", "num_hidden_layers": 2}))
MIXTURES = [
    PublishedJob(
        "mixture of experts",
        "ao-llama4-2layer-bf16",
        job(
            LLAMA4,
            8192,
            8,
            precision=FSDP,
            compiled=True,
            degrees=Degrees(data_parallel_shard_degree=4, expert_parallel_degree=4),
        ),
        0,
        "pytorch/ao torchao/prototype/moe_training/README.md",
        145.55 * GIB,
    )
]
SEEN = (
    "tune-l32-3b-packed",  # RMSNorm in fp32
    "tune-l32-3b-compile",  # what compiled layers keep
    "snap-wedsonlin-medium-ctx1024-training",  # a softmax in fp32 under autocast
    "titan-l3-405b-4d-cp1",  # FSDP2 between a pipeline's micro-batches
    "titan-l3-405b-4d-cp2",
)
PUBLISHED_JOBS = [*MIXTURES, *ONE_GPU, *ADAPTERS, *SHARDED, *INFERENCE]
