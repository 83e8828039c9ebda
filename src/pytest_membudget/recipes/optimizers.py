"""Optimizers by name, from the library that has them."""

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

import torch

from ..scenarios.job import Optimizer
from .known import TORCH_NAMES

#: Where each library has them.
_MODULES: Final = {
    "torch": "torch.optim",
    "transformers": "transformers.optimization",
    "bitsandbytes": "bitsandbytes.optim",
    "torchao": "torchao.optim",
}


def optimizer_class(optimizer: Optimizer) -> Callable[..., torch.optim.Optimizer]:
    """What makes ``optimizer`` of a list of parameters."""
    suffix = f"{optimizer.bits or 8}bit" if optimizer.library == "torchao" else ""
    module = importlib.import_module(_MODULES[optimizer.library])
    kind = getattr(module, f"{TORCH_NAMES[optimizer.name]}{suffix}")
    return functools.partial(kind, **_options(optimizer))


def _options(optimizer: Optimizer) -> dict[str, Any]:
    options: dict[str, Any] = {"lr": None if optimizer.library == "transformers" else 1e-4}
    if optimizer.momentum:
        options["momentum"] = 0.9
    if optimizer.library == "bitsandbytes":
        options["optim_bits"] = optimizer.bits or 32
        if optimizer.is_paged:
            options["is_paged"] = True
    elif optimizer.implementation == "fused":
        options |= {"foreach": None, "fused": True}
    elif optimizer.implementation is not None:
        options["foreach"] = optimizer.implementation == "foreach"
    return options
