"""The same decoder under one optimizer after the other; and updates within backward."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch
from torch import nn

from ..cases.models.low_bit_adam import AO_4BIT, AO_8BIT, AO_FP8, BNB_8BIT, LowBitAdamW
from .language_models import llama_model
from .training import TYPES, UPDATES, MakeOptimizer, backward, language_loss, tokens, trained

MAKERS: dict[str, MakeOptimizer] = {
    "adamw": torch.optim.AdamW,
    "adamw-loop": partial(torch.optim.AdamW, foreach=False),
    "adamw-fused": partial(torch.optim.AdamW, fused=True),
    "adamw-amsgrad": partial(torch.optim.AdamW, amsgrad=True),
    "adamw-capturable": partial(torch.optim.AdamW, capturable=True),
    "sgd": partial(torch.optim.SGD, lr=1e-3),
    "sgd-momentum": partial(torch.optim.SGD, lr=1e-3, momentum=0.9, weight_decay=0.01, nesterov=True),
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
    "ao-8-bit": partial(LowBitAdamW, layout=AO_8BIT),
    "ao-4-bit": partial(LowBitAdamW, layout=AO_4BIT),
    "ao-fp8": partial(LowBitAdamW, layout=AO_FP8),
    "bnb-8-bit": partial(LowBitAdamW, layout=BNB_8BIT),
}


def updated(optimizer: str, dtype: str = "bf16", size: str = "1b", length: int = 256) -> None:
    """A Llama with few tokens: parameters, gradients and states are nearly all it takes."""
    model = llama_model(size, TYPES[dtype])
    ids = tokens(1, length, 32_000)
    trained(model, language_loss(model, {"input_ids": ids, "labels": ids}), MAKERS[optimizer])


def in_backward(size: str, length: int = 512) -> None:
    """A Llama whose parameters are updated one by one within backward, each gradient freed at once."""
    model = llama_model(size, torch.bfloat16)
    _step_in_backward(model.parameters())
    ids = tokens(1, length, 32_000)
    for _ in range(UPDATES):
        backward(model(input_ids=ids, labels=ids).loss)


def _step_in_backward(parameters: Iterable[nn.Parameter]) -> None:
    optimizers = {parameter: torch.optim.AdamW([parameter], lr=1e-4) for parameter in parameters}

    def step(parameter: torch.Tensor) -> None:
        optimizer = optimizers[parameter]  # type: ignore[index]
        optimizer.step()
        optimizer.zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(step)
