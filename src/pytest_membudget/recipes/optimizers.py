"""Optimizers by name, from the library that has them."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..scenarios.job import Optimizer
from .known import TORCH_NAMES


def optimizer_class(optimizer: Optimizer) -> Callable[..., torch.optim.Optimizer]:
    """What makes ``optimizer`` of a list of parameters."""
    return functools.partial(_class(optimizer), **_options(optimizer))


def _class(optimizer: Optimizer) -> Any:
    if optimizer.library == "transformers":
        from transformers.optimization import Adafactor

        return Adafactor
    if optimizer.library == "bitsandbytes":
        import bitsandbytes.optim

        return getattr(bitsandbytes.optim, TORCH_NAMES[optimizer.name])
    if optimizer.library == "torchao":
        import torchao.optim

        return getattr(torchao.optim, f"{TORCH_NAMES[optimizer.name]}{optimizer.bits or 8}bit")
    return getattr(torch.optim, TORCH_NAMES[optimizer.name])


def _options(optimizer: Optimizer) -> dict[str, Any]:
    options: dict[str, Any] = {"lr": None if optimizer.library == "transformers" else 1e-4}
    if optimizer.momentum:
        options["momentum"] = 0.9
    if optimizer.library == "bitsandbytes":
        options["optim_bits"] = optimizer.bits or 32
        if optimizer.is_paged:
            options["is_paged"] = True
    elif optimizer.implementation is not None:
        options |= {"foreach": optimizer.implementation == "foreach"}
        if optimizer.implementation == "fused":
            options = {**options, "foreach": None, "fused": True}
    return options
