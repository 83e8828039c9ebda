"""The loops that the steps share: a model made on the device, and two updates of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

#: One to warm up, and one whose peak a long training has.
UPDATES = 2
BFLOAT16, FLOAT16, FLOAT32 = torch.bfloat16, torch.float16, torch.float32
#: By the names that the registry uses.
TYPES = {"bf16": BFLOAT16, "fp16": FLOAT16, "fp32": FLOAT32}

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


@contextlib.contextmanager
def on_cuda(dtype: torch.dtype = FLOAT32) -> Iterator[None]:
    """Whatever is made in here lies on the device and has this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            yield
    finally:
        torch.set_default_dtype(before)


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    """Random token ids."""
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """With PyTorch's defaults."""
    return torch.optim.AdamW(parameters, lr=1e-4)


def trained(
    model: nn.Module,
    loss_of: Callable[[], Tensor],
    make_optimizer: MakeOptimizer = adamw,
    *,
    autocast: torch.dtype | None = None,
    clip: bool = False,
    accumulate: int = 1,
) -> None:
    """Forward, backward and update, twice; with a gradient scaler where ``autocast`` is float16."""
    model.train()
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda", enabled=autocast is FLOAT16)
    for _ in range(UPDATES):
        for _ in range(accumulate):
            with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
                loss = loss_of()
            backward(scaler.scale(loss / accumulate))
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


def backward(loss: Tensor) -> None:
    """``loss.backward()``, typed."""
    loss.backward()


def language_loss(model: nn.Module, inputs: Mapping[str, Any]) -> Callable[[], Tensor]:
    """The loss of a model of transformers: it has labels among its ``inputs``."""

    def loss() -> Tensor:
        found: Tensor = model(**inputs).loss
        return found

    return loss
