"""Full fine-tuning of Llamas on one GPU, as torchtune's recipes do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
import torch
from torch import nn

from .models.low_bit_adam import AO_8BIT, BNB_8BIT, LowBitAdamW, StateLayout
from .models.torchtune_llama import LLAMA2_7B, LLAMA32_3B, LlamaShape, TorchtuneLlama, loss_of, slice_loss

#: Longest sample of Alpaca with Llama 2's tokenizer: that of the cleaned data, by Lightning-AI/litgpt@0cc02af
#: (tutorials/resource-tables.md); of the data that torchtune takes it is not published.
ALPACA_TOKENS = 1304


def finetune(
    model: TorchtuneLlama,
    optimizer: torch.optim.Optimizer,
    batch: int,
    tokens: int,
    *,
    packed: bool,
    compiled: bool = False,
) -> None:
    """Two steps of recipes/full_finetune_single_device.py, without accumulation."""
    of_slice = torch.compile(slice_loss) if compiled else slice_loss
    ignored = torch.full((batch, 1), -100, device="cuda")
    running_loss: torch.Tensor | int = 0
    for _ in range(2):
        inputs, labels = (torch.zeros(batch, tokens, dtype=torch.long).cuda() for _ in range(2))
        positions = torch.zeros(batch, tokens, dtype=torch.long).cuda() if packed else None
        counted = (labels != -100).sum()
        shifted = torch.hstack((labels[..., 1:], ignored))
        current_loss = loss_of(model(inputs, positions), shifted, of_slice) * counted
        running_loss += current_loss
        current_loss.backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= 1 / counted
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running_loss = 0


def in_bfloat16(make: Callable[[], TorchtuneLlama]) -> TorchtuneLlama:
    """The module as the recipes make it: on the device, and its floats in bfloat16."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = make()
    torch.set_default_dtype(torch.float32)
    return model


def fused(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=2e-5, fused=True)


@pytest.mark.mem_budget(gpu="A100-80GB")
@pytest.mark.parametrize(
    ("shape", "compiled"),
    [
        pytest.param(LLAMA32_3B, False, id="tune-l32-3b-packed"),
        pytest.param(LLAMA32_3B, True, id="tune-l32-3b-compile"),
        pytest.param(replace(LLAMA32_3B, chunks=8), True, id="tune-l32-3b-chunked-ce"),
        pytest.param(replace(LLAMA32_3B, chunks=8, checkpointing=True), True, id="tune-l32-3b-act-ckpt"),
    ],
)
def test_llama32_3b(shape: LlamaShape, compiled: bool) -> None:
    """Compiled layer by layer, as torchtune does, and the loss of a slice."""
    model = in_bfloat16(lambda: TorchtuneLlama(shape))
    if compiled:
        for layer in model.layers:
            layer.compile()
    finetune(model, fused(model.parameters()), 2, 4096, packed=True, compiled=compiled)


@pytest.mark.mem_budget(gpu="A100-80GB")
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(BNB_8BIT, id="ao-llama2-7b-bnb-8-bit"),
        pytest.param(AO_8BIT, id="ao-llama2-7b-ao-8-bit"),
    ],
)
def test_llama2_7b(layout: StateLayout) -> None:
    """The longest batch of recipes/configs/llama2/7B_full, with an optimizer of eight bits."""
    model = in_bfloat16(lambda: TorchtuneLlama(replace(LLAMA2_7B, chunks=8, checkpointing=True)))
    finetune(model, LowBitAdamW(model.parameters(), layout), 2, ALPACA_TOKENS, packed=False)
