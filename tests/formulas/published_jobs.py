"""Published peaks of jobs that formulas can say; none was used to fit a formula.

An entry is a figure that somebody measured on a GPU and published, in bytes, and the job that it was measured
of as far as the source says it. ``SEEN`` names those in whose code a choice of a formula was looked up: the
errors of docs/accuracy.md are those of the others.
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


_TUNE = "pytorch/torchtune@1814feb README.md, recipes/full_finetune_single_device.py"
_CS336 = "Wedsonlin/assignment2-systems@8630bcfe snapshots"
_KKAITLYN = "kkaitlyn111's snapshots of the same assignment, one process for all sizes"
_LOW_BITS = "pytorch/ao@1e7f132e3 torchao/prototype/low_bit_optim/README.md"
_LIT_GPT = "Lightning-AI/litgpt@0cc02afa tutorials/resource-tables.md, finetune/lora.py"
_TITAN = "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md (9dec370)"
_PR165 = "pytorch/torchtitan pull/165"
_H200 = "pytorch/torchtitan benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md"
_AO = "pytorch/ao docs/source/workflows/training.md"
_EAGER = {"optimizer": LOOP, "attention": "eager"}
_COMPILED = {"optimizer": FUSED, "compiled": True}
_SAVED = {**_COMPILED, "loss": Loss("chunked"), "checkpointing": FULL}
_STATES = Optimizer(library="bitsandbytes", bits=8)


def case(kind, id, measured_bytes, source, model, sequence, micro_batch=1, reserved_bytes=0, **more):
    return PublishedJob(
        kind, id, job(model, sequence, micro_batch, **more), measured_bytes, source, reserved_bytes
    )


def one_gpu(id, *rest, **more):
    return case("one GPU", id, *rest, **more)


def lora(id, gb, model, tokens, micro_batch, base=None):
    adapter = Adapter("qlora" if base else "lora", 8, ("q_proj", "v_proj"), base)
    return case(
        "adapters", f"litgpt-lora-{id}", gb * GB, _LIT_GPT, model, tokens, micro_batch, adapter=adapter
    )


def titan(
    id, gib, source, model, sequence, micro_batch, shards, active=0, mode=FULL, is_compiled=True, **more
):
    degrees = Degrees(data_parallel_shard_degree=shards, **more.pop("degrees", {}))
    more |= {"precision": FSDP, "degrees": degrees, "checkpointing": mode, "compiled": is_compiled}
    return case("sharded", id, active * GIB, source, model, sequence, micro_batch, gib * GIB, **more)


def generated(id, mib, reserved_mib, tokens, precision=FP32):
    more = {"precision": precision, "generation": Generation(tokens, 0), **_EAGER}
    return case("inference", id, mib * MIB, _CS336, MEDIUM, 1, 4, reserved_mib * MIB, **more)


FOUR_D = {"tensor_parallel_degree": 8, "pipeline_parallel_degree": 8, "sequence_parallel": True}
# fmt: off
ONE_GPU = [
    one_gpu("tune-l32-3b-packed", 60.0 * GIB, _TUNE, LLAMA32_3B, 4096, 2, optimizer=FUSED),
    one_gpu("tune-l32-3b-compile", 51.0 * GIB, _TUNE, LLAMA32_3B, 4096, 2, **_COMPILED),
    one_gpu("tune-l32-3b-chunked-ce", 42.9 * GIB, _TUNE, LLAMA32_3B, 4096, 2, loss=Loss("chunked"),
        **_COMPILED),
    one_gpu("tune-l32-3b-act-ckpt", 24.9 * GIB, _TUNE, LLAMA32_3B, 4096, 2, **_SAVED),
    one_gpu("ao-llama2-7b-bnb-8-bit", 39.3 * GIB, _LOW_BITS, LLAMA2_7B, 1304, 2, optimizer=_STATES,
        checkpointing=FULL),
    one_gpu("snap-wedsonlin-medium-ctx128-training", 6701.0942 * MIB, _CS336, MEDIUM, 128, 4, 6900 * MIB,
            precision=FP32, **_EAGER),
    one_gpu("snap-wedsonlin-medium-ctx1024-training", 23092.1924 * MIB, _CS336, MEDIUM, 1024, 4, 24012 * MIB,
            precision=AUTOCAST, **_EAGER),
    one_gpu("snap-kkaitlyn-2.7b-full128", 52527.4282 * MIB, _KKAITLYN, LARGE, 128, 4, 58280 * MIB,
            precision=FP32, **_EAGER),
]
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
SHARDED = [
    titan("titan-l3-8b-8gpu-fsdp", 82.4, _TITAN, LLAMA3_8B, 8192, 2, 8, mode=PER_OPERATOR, is_compiled=False),
    titan("titan-l3-8b-128gpu-fsdp", 67.0, _TITAN, LLAMA3_8B, 8192, 2, 128, mode=PER_OPERATOR,
        is_compiled=False),
    titan("titan-l3-8b-cp2", 84.2, _TITAN, LLAMA3_8B, 65536, 1, 4, degrees={"context_parallel_degree": 2}),
    titan("titan-l3-8b-cp4", 84.0, _TITAN, LLAMA3_8B, 131072, 1, 2, degrees={"context_parallel_degree": 4}),
    titan("titan-l3-8b-cp8", 84.5, _TITAN, LLAMA3_8B, 262144, 1, 1, degrees={"context_parallel_degree": 8}),
    titan("titan-l3-70b-2d-asynctp", 67.6, _TITAN, LLAMA3_70B, 8192, 16, 32,
          degrees={"tensor_parallel_degree": 8, "sequence_parallel": True}),
    titan("titan-l3-405b-4d-cp1", 75.3, _TITAN, LLAMA3_405B, 32768, 1, 8, accumulation=8, degrees=FOUR_D),
    titan("titan-l3-405b-4d-cp2", 75.9, _TITAN, LLAMA3_405B, 65536, 1, 4, accumulation=8,
          degrees={**FOUR_D, "context_parallel_degree": 2}),
    titan("titan-l3-8b-h200-8nodes", 46.97, _H200, LLAMA3_8B, 8192, 2, 64, mode=PER_OPERATOR),
    titan("titan-pr382-with-pr", 68.09, "pytorch/torchtitan pull/382", LLAMA3_8B, 8192, 2, 8,
    mode=PER_OPERATOR,
          optimizer=FUSED),
    titan("titan-pr165-fsdp1-ac", 32.14, _PR165, LLAMA2_7B, 2048, 8, 8, 23.58, is_compiled=False),
    titan("titan-pr165-fsdp2-sac", 59.41, _PR165, LLAMA2_7B, 2048, 8, 8, 49.54, PER_OPERATOR,
        is_compiled=False),
    titan("ao-l3-8b-h100-bf16", 47.65, _AO, LLAMA3_8B, 8192, 1, 8, mode=PER_OPERATOR),
]
#: forwards without a cache, whose logits are those of all tokens
INFERENCE = [
    generated("snap-wedsonlin-medium-ctx128-inference", 1658.3711, 1682, 128),
    generated("snap-wedsonlin-medium-ctx512-inference", 1860.9141, 1890, 512, AUTOCAST),
    generated("snap-wedsonlin-medium-ctx1024-inference", 2746.0117, 3056, 1024),
    case("inference", "ao-infer-base-bf16-llama-3.1-8b", 0,
         "pytorch/ao@bc000aafb torchao/quantization/README.md, torchao/_models/llama/generate.py",
         LLAMA3_8B, 1, 1, 16.35 * GB, generation=Generation(6, 200, "static")),
]
# fmt: on
LLAMA4 = Model("config", "llama4-2-layers", json.dumps({"model_type": "llama4_text", "num_hidden_layers": 2}))
_EXPERTS = Degrees(data_parallel_shard_degree=4, expert_parallel_degree=4)
_MOE = "pytorch/ao torchao/prototype/moe_training/README.md"
_SIZES = (8192, 8, 145.55 * GIB)
MIXTURES = [
    case(
        "mixture of experts", "ao-llama4-2layer-bf16", 0, _MOE, LLAMA4, *_SIZES, precision=FSDP,
        compiled=True,
        degrees=_EXPERTS,
    )
]  # fmt: skip
SEEN = (
    "tune-l32-3b-packed",  # RMSNorm in fp32
    "tune-l32-3b-compile",  # what compiled layers keep
    "snap-wedsonlin-medium-ctx1024-training",  # a softmax in fp32 under autocast
    "titan-l3-405b-4d-cp1",  # FSDP2 between a pipeline's micro-batches
    "titan-l3-405b-4d-cp2",
)
PUBLISHED_JOBS = [*MIXTURES, *ONE_GPU, *ADAPTERS, *SHARDED, *INFERENCE]
