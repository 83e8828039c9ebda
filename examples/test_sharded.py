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


def random_tokens(length, batch_size=1):
    return torch.randint(0, LLAMA3_8B.vocabulary, (batch_size, length), device="cuda")


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
    for _ in range(2):  # the first step creates the optimizer's states, the second runs beside them
        step(model, length)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    "tensor_parallel",
    [
        pytest.param(1, id="fsdp-8", marks=pytest.mark.mem_budget(gib=80, gpus=8)),
        pytest.param(4, id="fsdp-2-tp-4", marks=pytest.mark.mem_budget(gib=80, gpus=8)),
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


@pytest.mark.mem_budget(gib=80, gpus=2, host_gib=200)
def test_cpu_offload():
    model = on_meta()
    apply_checkpointing(model)
    shard(model, mp_policy=MIXED, offload_policy=CPUOffloadPolicy())
    materialize(model, "cpu")
    train(model, 8192)


@pytest.mark.mem_budget(gib=80, gpus=2)
def test_step_in_backward():
    model = on_meta(torch.bfloat16)
    shard(model)
    materialize(model)
    optimizer_in_backward(model, torch.optim.AdamW)
    for _ in range(2):
        step(model, 2048)


@pytest.mark.parametrize("student_trains", ["lora", "full"])
@pytest.mark.mem_budget(gib=80, gpus=2, gpu="A100-80GB")
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
        tokens = random_tokens(2048, batch_size=2)
        distillation_step(student, teacher, optimizer, {"tokens": tokens, "labels": tokens}, chunks=8)
