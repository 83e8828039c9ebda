"""Compiled functions: the module and the optimizers that they use, and the environment they read."""

from __future__ import annotations

import contextlib
import inspect
import os
from typing import Any

import torch
from torch import nn


def module_of(function: Any) -> nn.Module | None:
    """The module that ``function`` is a method of, wrapped or not; None for other functions."""
    owner = getattr(inspect.unwrap(function), "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def optimizers_of(function: Any) -> list[torch.optim.Optimizer]:
    """The optimizers that ``function`` uses: its own object, and those in variables that it names."""
    found = [getattr(function, "__self__", None)]
    code = getattr(function, "__code__", None)
    if code is not None:
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell
                found.append(cell.cell_contents)
        found += [function.__globals__.get(name) for name in code.co_names]
    return [one for one in found if isinstance(one, torch.optim.Optimizer)]


def plain_environment() -> contextlib.AbstractContextManager[None]:
    """A context with Python's own ``os.environ`` in place of the one that records reads for the cache.

    Dynamo traces code that reads variables, and breaks the graph at a class of this package.
    """
    unwatched = getattr(os.environ, "unwatched", contextlib.nullcontext)
    context: contextlib.AbstractContextManager[None] = unwatched()
    return context
