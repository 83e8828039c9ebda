"""How a step calls a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn

Batch: TypeAlias = Tensor | Mapping[str, Any] | tuple[Any, ...] | list[Any]
"""What a model is called with: a tensor, keyword arguments (a mapping) or positional ones (a sequence)."""


def call(model: nn.Module, batch: object) -> object:
    """What ``model`` returns for ``batch``; ``TypeError`` for a batch of another kind."""
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    raise TypeError(
        f"a batch of type {type(batch).__name__}: give a tensor, a mapping of keyword arguments, or a tuple "
        "or list of positional ones (of a data loader: iter(loader))"
    )


def refuse_training_mode(model: nn.Module, name: str) -> None:
    """``ValueError`` for a model in training mode, called ``name`` in its text."""
    if model.training:
        raise ValueError(
            f"the {name} is in training mode (dropout is on): call {name}.eval() before the step"
        )
