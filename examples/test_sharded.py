"""Llama 3 8B over several GPUs: FSDP2, tensor parallelism, CPU offload, distillation.

N = 8,030,261,248 parameters. Every matrix divides evenly, so all ranks hold the same.
By hand, in GiB a GPU:

    pretraining over 8 GPUs, 8,192 tokens, fp32 shards, bf16 compute, in backward through the loss
        parameters, 4 N / 8                                     3.74
        AdamW's moments, 8 N / 8                                7.48
        inputs of 32 blocks, 8,192 x 4,096 x 2 bytes each       2.00    checkpointing keeps no more
        log-softmax of 8,192 x 128,256 logits in fp32           3.91
        and the gradients before and after it                   7.83
        the embeddings in bf16, whole: the outermost group      0.98
        input of the norm, its result, cuBLAS's workspaces      0.19
                                                               -----
                                                               26.13

    the same with 4-way tensor parallelism: logits are split 4 ways, and the optimizer step is the peak
        parameters and gradients, 4 N / 8 each                  7.48
        AdamW's moments, and foreach's temporaries, 12 N / 8   11.22

    CPU offload on 2 GPUs: the GPU holds the first list without the states, 26.13 - 11.22 = 14.91; the host
    parameters, gradients and moments, 16 N = 119.66, and pinned memory in powers of two, and temporaries

    step in backward, 2 GPUs, 2,048 tokens, all in bf16, when backward is through the output
        parameters and moments, 6 N / 2                        22.44
        32 blocks x 20.5 x 2,048 x 4,096 x 2 bytes             10.25    no checkpointing
        the output's gradient, whole and this rank's half       1.47    of N / 2 x 2 = 7.48 in all
        output, embeddings and the next block, gathered         2.36

    distillation, 2 GPUs, 2,048 tokens, all in bf16
        teacher and student, 2 N / 2 each                      14.96
        embeddings of both in whole                             1.96
        LoRA, in backward through the loss: inputs of blocks    0.50
            logits of both in bf16, in fp32 three log-softmaxes 3.92
        full student, at the end of backward instead:
            gradients and moments, 6 N / 2                     22.44
            the rest of the embeddings' gradient, a block       0.90
"""

import pytest
import torch
import torch.nn.functional as F
from models.llama_parallel import (
    Llama,
    LlamaConfig,
    add_lora,
    apply_checkpointing,
    apply_tensor_parallel,
    materialize,
    shard,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy
from torch.distributed.tensor.parallel import loss_parallel

from pytest_membudget.steps import distillation_step, optimizer_in_backward

LLAMA3_8B = LlamaConfig()
#: a rank keeps fp32 shards, computes in bf16 and adds gradients up in fp32
MIXED = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def random_tokens(length):
    return torch.randint(0, LLAMA3_8B.vocabulary, (1, length), device="cuda")


def step(model, length):
    """Forward and backward. Where logits are split along the vocabulary, so is the loss."""
    logits = model(random_tokens(length)).flatten(0, 1)
    with loss_parallel():
        loss = F.cross_entropy(logits.float(), random_tokens(length).flatten())
        del logits
        loss.backward()


def on_meta(dtype=torch.float32):
    with torch.device("meta"):
        return Llama(LLAMA3_8B).to(dtype)


def train(model, length):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):  # the first step creates the optimizer's states, the second runs with them
        step(model, length)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    "tensor_parallel",
    [
        pytest.param(1, id="fsdp-8", marks=pytest.mark.mem_budget(gib=27.5, gpus=8)),
        pytest.param(4, id="fsdp-2-tp-4", marks=pytest.mark.mem_budget(gib=20, gpus=8)),
    ],
)
def test_pretraining(tensor_parallel):
    mesh = init_device_mesh("cuda", (8 // tensor_parallel, tensor_parallel), mesh_dim_names=("dp", "tp"))
    model = on_meta()
    if tensor_parallel > 1:
        apply_tensor_parallel(model, mesh["tp"])
    apply_checkpointing(model)
    shard(model, mesh=mesh["dp"], mp_policy=MIXED)
    materialize(model)
    train(model, 8192)


@pytest.mark.mem_budget(gib=16, gpus=2, host_gib=136)
def test_cpu_offload():
    model = on_meta()
    apply_checkpointing(model)
    shard(model, mp_policy=MIXED, offload_policy=CPUOffloadPolicy())
    materialize(model, "cpu")
    train(model, 8192)


@pytest.mark.mem_budget(gib=39, gpus=2)
def test_step_in_backward():
    model = on_meta(torch.bfloat16)
    shard(model)
    materialize(model)
    optimizer_in_backward(model, torch.optim.AdamW)
    for _ in range(2):
        step(model, 2048)


ON_2_A100 = {"gpus": 2, "gpu": "A100-80GB"}


@pytest.mark.parametrize(
    "student_trains",
    [
        pytest.param("lora", marks=pytest.mark.mem_budget(gib=23, **ON_2_A100)),
        pytest.param("full", marks=pytest.mark.mem_budget(gib=42, **ON_2_A100)),
    ],
)
def test_distilling_8b_into_8b(student_trains):
    teacher = on_meta(torch.bfloat16).requires_grad_(False).eval()
    student = on_meta(torch.bfloat16)
    if student_trains == "lora":
        add_lora(student)
    apply_checkpointing(student)
    for model in (teacher, student):
        shard(model)
        materialize(model)
    trained = [parameter for parameter in student.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    for _ in range(2):
        tokens = random_tokens(2048)
        distillation_step(student, teacher, optimizer, {"tokens": tokens, "labels": tokens}, chunks=8)
