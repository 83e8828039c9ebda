"""Vision transformers on one GPU: optimizers of few bits, on the host, and within backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .models.host_offload import HostAdamW
from .models.low_bit_adam import AO_4BIT, AO_8BIT, AO_FP8, BNB_8BIT, LowBitAdamW
from .models.vision_transformer import TimmConfig, TimmViT, TorchvisionViTL16

VIT_HUGE = TimmConfig(width=1280, depth=32, heads=16, hidden=5120)
VIT_GIANT = TimmConfig(width=1536, depth=40, heads=24, hidden=8192, gated=True, layer_scale=True)


class Optimizer(Protocol):
    def step(self) -> object: ...

    def zero_grad(self) -> None: ...


MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
FUSED: MakeOptimizer = partial(torch.optim.AdamW, fused=True)


def train(model: nn.Module, make: MakeOptimizer, batch: int, *, amp: bool) -> None:
    """Two steps of torchao's benchmarks/benchmark_low_bit_adam.py; its evaluation takes less than they do."""
    optimizer = make(model.parameters())
    type_ = torch.float32 if amp else torch.bfloat16
    for _ in range(2):
        images, labels = torch.zeros(batch, 3, 224, 224, dtype=type_), torch.zeros(batch, dtype=torch.long)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.mem_budget(gpu="RTX-4080")
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(FUSED, id="ao-vith-AdamW-fused"),
        pytest.param(partial(LowBitAdamW, layout=BNB_8BIT), id="ao-vith-bnb-8-bit"),
        pytest.param(partial(LowBitAdamW, layout=AO_8BIT), id="ao-vith-ao-8-bit"),
        pytest.param(partial(LowBitAdamW, layout=AO_FP8), id="ao-vith-ao-FP8-E4M3"),
        pytest.param(partial(LowBitAdamW, layout=AO_4BIT), id="ao-vith-ao-4-bit"),
    ],
)
def test_vit_huge(make: MakeOptimizer) -> None:
    model = TimmViT(VIT_HUGE).cuda()
    model.compile(fullgraph=True)
    train(model, make, 8, amp=True)


@pytest.mark.mem_budget(gpu="RTX-4080")
@pytest.mark.parametrize(
    ("make", "amp"),
    [
        pytest.param(FUSED, False, id="ao-vitg-offload-none"),
        pytest.param(HostAdamW, False, id="ao-vitg-bf16-compiled-ao"),
        pytest.param(HostAdamW, True, id="ao-vitg-amp-eager-ao"),
    ],
)
def test_vit_giant(make: MakeOptimizer, amp: bool) -> None:
    model = TimmViT(VIT_GIANT, checkpointing=True)
    model = (model if amp else model.bfloat16()).cuda()
    train(model, make, 32, amp=amp)


@pytest.mark.mem_budget(gpu="A100-40GB")
@pytest.mark.parametrize(
    "in_backward",
    [
        pytest.param(False, id="pt-tutorial-vitl-baseline"),
        pytest.param(True, id="pt-tutorial-vitl-in-backward"),
    ],
)
def test_vit_l16(in_backward: bool) -> None:
    model = TorchvisionViTL16().cuda()
    optimizer = None if in_backward else torch.optim.Adam(model.parameters())
    if in_backward:
        optimizers = {one: torch.optim.Adam([one], foreach=False) for one in model.parameters()}

        def step(parameter: torch.Tensor) -> None:
            optimizers[parameter].step()  # type: ignore[index]
            optimizers[parameter].zero_grad()  # type: ignore[index]

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)

    def train_once() -> None:
        image = torch.rand(1, 3, 224, 224).cuda()
        loss = model(image)
        loss.sum().backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()

    for _ in range(3):
        train_once()
