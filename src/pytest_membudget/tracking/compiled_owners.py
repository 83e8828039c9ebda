"""Whose code a compiled function is: the module that it belongs to, and the optimizers that it steps."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn


def module_of(function: Any) -> nn.Module | None:
    """The module that ``function`` is a method of, also within a wrapper; None for any other."""
    owner = getattr(inspect.unwrap(function), "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def optimizers_of(function: Any) -> list[torch.optim.Optimizer]:
    """The optimizers that ``function`` steps, as far as can be told: its own object, and names it uses."""
    owner = getattr(function, "__self__", None)
    found = [owner] if owner is not None else []
    code = getattr(function, "__code__", None)
    if code is not None:
        found += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        found += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    return [one for one in found if isinstance(one, torch.optim.Optimizer)]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
