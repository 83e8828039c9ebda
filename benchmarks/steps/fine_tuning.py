"""Adapters of low rank, weights in four bits, and distillation."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..cases.models.four_bits import FourBitLinear
from ..cases.models.lit_gpt import LitConfig, LitGPT, chunked_cross_entropy
from .language_models import llama_model
from .training import UPDATES, adamw, backward, language_loss, on_cuda, tokens, trained

PHI = LitConfig(
    layers=24, heads=32, width=2048, hidden=8192, vocabulary=51_200, rotary=0.5, shared_norm=True,
    head_bias=True, gelu="tanh",
)  # fmt: skip
LLAMA_7B = LitConfig(
    layers=32, heads=32, width=4096, hidden=11_008, vocabulary=32_000, rotary=1.0, llama=True
)
_LIT = {"phi": PHI, "7b": LLAMA_7B}
_ADAPTED = ("q_proj", "v_proj")


class Adapter(nn.Module):
    """A frozen linear layer and a product of two small ones beside it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        where: dict[str, Any] = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, base.in_features, **where))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, **where))
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        """(..., out features)."""
        beside = F.linear(F.linear(self.dropout(x), self.down), self.up)
        out: Tensor = self.base(x) + 2.0 * beside
        return out


def adapt(model: nn.Module, rank: int = 16) -> nn.Module:
    """Freeze ``model`` and put adapters on its queries and values."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name in _ADAPTED:
            layer = getattr(module, name, None)
            if isinstance(layer, nn.Linear):
                setattr(module, name, Adapter(layer, rank))
    return model


def lora(size: str, batch: int, length: int, checkpointing: bool = False) -> None:
    """A Llama of transformers in bfloat16 with adapters of rank 16."""
    model = adapt(llama_model(size, torch.bfloat16))
    if checkpointing:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
        model.enable_input_require_grads()  # type: ignore[operator]
    ids = tokens(batch, length, 128_256)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}))


def lit_gpt(model: str, batch: int, length: int, four_bits: bool) -> None:
    """lit-gpt's LoRA, over bfloat16 weights or weights of four bits; the loss in chunks."""
    linear = partial(FourBitLinear, twice=False) if four_bits else _linear
    with on_cuda(torch.bfloat16):
        made = LitGPT(_LIT[model], linear, length)
    ids = torch.zeros(batch, length, dtype=torch.int64, device="cuda")

    def loss() -> Tensor:
        logits = [part.float() for part in made(ids, chunk=128)]
        logits[-1] = logits[-1][..., :-1, :]
        return chunked_cross_entropy(logits, ids[..., 1:])

    trained(made, loss)


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Module:
    return nn.Linear(inputs, outputs, bias=bias)


def distilled(student: str, teacher: str, length: int, with_adapters: bool = False, chunks: int = 1) -> None:
    """A student learns from a frozen, larger teacher: divergence of their logits and cross entropy."""
    frozen = llama_model(teacher, torch.bfloat16).eval().requires_grad_(False)
    model = llama_model(student, torch.bfloat16)
    if with_adapters:
        adapt(model)
    optimizer = adamw([p for p in model.parameters() if p.requires_grad])
    ids = tokens(1, length, 128_256)
    for _ in range(UPDATES):
        with torch.no_grad():
            wanted = frozen(input_ids=ids).logits
        logits = model(input_ids=ids).logits
        loss = _mixed_loss(logits, wanted, ids, chunks)
        del logits, wanted
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def _mixed_loss(logits: Tensor, wanted: Tensor, ids: Tensor, chunks: int) -> Tensor:
    total = torch.zeros((), device=logits.device)
    parts = zip(logits.chunk(chunks, 1), wanted.chunk(chunks, 1), ids.chunk(chunks, 1), strict=True)
    for own, other, labels in parts:
        learned = F.log_softmax(own.float(), dim=-1)
        divergence = F.kl_div(learned, F.log_softmax(other.float(), dim=-1), reduction="sum", log_target=True)
        total = total + divergence + F.nll_loss(learned.flatten(0, 1), labels.flatten(), reduction="sum")
    return total / ids.numel()
