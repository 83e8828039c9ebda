"""Copies of tensors made by the user's code: an average of the weights (EMA), a snapshot, a master copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from ..running_code.replaced import Replacement

#: Called with a tensor and its copy.
Copied = Callable[[torch.Tensor, torch.Tensor], None]

_CASTS: Final = ("to", "float", "double", "half", "bfloat16")
#: A context in which no ``__torch_function__`` of the user's sees what is looked at here.
_without_subclasses = torch._C.DisableTorchFunctionSubclass


def follow_copies(copied: Copied) -> list[Replacement]:
    """Call ``copied`` for each copy that Python makes of a leaf, until the replacements are removed.

    Not for what a compiler traces, nor for a cast that autograd records: a weight that a forward casts is an
    activation. ``torch.clone`` stays as it is, because TorchScript finds it by identity; and a
    ``TorchFunctionMode``, which would see it, takes ``nn.Transformer`` and others from their fast paths. A
    ``__torch_function__`` of the user's gets the methods that are in place when it is called.
    """
    casts = (Replacement(torch.Tensor, name, lambda cast: _casting(cast, copied)) for name in _CASTS)
    return [
        Replacement(torch.Tensor, "clone", lambda clone: _cloning(clone, copied)),
        Replacement(torch.Tensor, "copy_", lambda fill: _filling(fill, copied)),
        *casts,
    ]


def _cloning(clone: Any, copied: Copied) -> Any:
    def cloning(source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        copy = clone(source, *args, **kwargs)
        if not torch.compiler.is_compiling():
            _note(copied, source, copy, leaf=source)
        return copy

    return cloning


def _casting(cast: Any, copied: Copied) -> Any:
    def casting(source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        copy = cast(source, *args, **kwargs)
        if not torch.compiler.is_compiling() and copy is not source:
            _note(copied, source, copy, leaf=copy)
        return copy

    return casting


def _filling(fill: Any, copied: Copied) -> Any:
    def filling(copy: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        filled = fill(copy, *args, **kwargs)
        source = args[0] if args else kwargs.get("src")
        if not torch.compiler.is_compiling() and isinstance(source, torch.Tensor):
            _note(copied, source, copy, leaf=copy)
        return filled

    return filling


def _note(copied: Copied, source: torch.Tensor, copy: torch.Tensor, *, leaf: torch.Tensor) -> None:
    with _without_subclasses():
        if leaf.is_leaf:
            copied(source, copy)
