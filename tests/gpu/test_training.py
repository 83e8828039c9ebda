"""Training steps of Llamas: whole, in micro-batches, with checkpoints, and updated within backward."""

import pytest

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.mem_budget(gib=76, gpu="H200")  # 8,030,261,248 x (2 + 2 + 4 + 2 while it steps) = 74.8 GiB
def test_a_whole_8b_model():
    trained_steps("8b", 1, 2048)


# Held while there are logits: 1.24e9 x 6 bytes = 6.9 GiB, and from the second micro-batch on 2.3 GiB of
# gradients. 2,048 tokens: three times 0.98 GiB of logits in float32, 0.49 in bfloat16, 16 layers at 0.16.
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1, marks=pytest.mark.mem_budget(gib=13.7, gpu="H200")),
        pytest.param(4, marks=pytest.mark.mem_budget(gib=16, gpu="H200")),
    ],
)
def test_micro_batches_take_one_of_them_and_the_gradients(count):
    trained_steps("1b", 2 * count, 1024, accumulate=count)


# 6.9 GiB held; 16 layers' inputs of 16 MiB, one layer's activations; three times 1.96 GiB of logits
@pytest.mark.mem_budget(gib=14, gpu="H200")
def test_checkpoints_of_every_layer():
    trained_steps("1b", 1, 4096, checkpointing=True)


# parameters 2 and states 4 bytes: 17.95 GiB; the embedding's gradient 0.73, and the temporaries of its update
@pytest.mark.mem_budget(gib=22, gpu="H200")
def test_updates_within_backward():
    import torch
    from gpu_models import batch, llama

    from pytest_membudget.steps import optimizer_in_backward, train_step

    model = llama("3b")
    optimizer_in_backward(model, torch.optim.AdamW)
    data = batch(1, 512)
    for _ in range(2):
        train_step(model, None, data)


# PyTorch's tutorial on it: about 6 GB before (five copies of 1.2 GB), about 4 GB after
@pytest.mark.parametrize(
    "in_backward",
    [
        pytest.param(False, marks=pytest.mark.mem_budget(gib=6.0, gpu="H200"), id="after"),
        pytest.param(True, marks=pytest.mark.mem_budget(gib=4.0, gpu="H200"), id="within"),
    ],
)
def test_a_vision_transformer_updated_after_or_within_backward(in_backward):
    import torch

    from benchmarks.cases.models.vision_transformer import TorchvisionViTL16
    from pytest_membudget.steps import optimizer_in_backward, train_step

    with torch.device("cuda"):
        model, images = TorchvisionViTL16(), torch.rand(1, 3, 224, 224)
    optimizer = None
    if in_backward:
        optimizer_in_backward(model, torch.optim.Adam)
    else:
        optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        train_step(model, optimizer, images, lambda output, batch: output.sum())


def trained_steps(size, sequences, tokens, *, accumulate=1, checkpointing=False):
    import torch
    from gpu_models import batch, llama

    from pytest_membudget.steps import train_step

    model = llama(size).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters())
    data = batch(sequences, tokens)
    for _ in range(2):
        train_step(model, optimizer, data, accumulate=accumulate)
