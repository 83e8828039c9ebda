"""Adam's states in 8 bits, with a library that is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest
import torch

from . import Note

_LIBRARIES = ("bitsandbytes", "torchao")
_KINDS = ("Adam", "AdamW")
#: The options that both libraries have (bitsandbytes 0.50, torchao 0.18).
_OPTIONS = ("lr", "betas", "eps", "weight_decay", "amsgrad")


def use_eight_bits(item: pytest.Item, note: Note) -> None:
    """Replace ``AdamW`` and ``Adam`` of torch.optim."""
    installed = [name for name in _LIBRARIES if importlib.util.find_spec(name) is not None]
    if installed:
        library = importlib.import_module(f"{installed[0]}.optim")
        for name in _KINDS:
            _replace(getattr(torch.optim, name), getattr(library, f"{name}8bit"), note)


def _replace(kind: Any, with_eight_bits: Any, note: Note) -> None:
    """Make instances of ``kind``, not of its subclasses, instances of the other class."""

    def make(cls: Any, params: Any = (), *args: Any, **kwargs: Any) -> Any:
        if cls is not kind:
            return object.__new__(cls)
        note(f"{with_eight_bits.__module__.partition('.')[0]}.optim.{with_eight_bits.__name__}")
        options = {name: value for name, value in kwargs.items() if name in _OPTIONS}
        return with_eight_bits(params, *args, **options)

    kind.__new__ = make
