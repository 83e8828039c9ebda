"""Copies of tensors made by the user's code: an average of the weights (EMA), a snapshot, a master copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    names = ("clone", "copy_", *_CASTS)
    return [Replacement(torch.Tensor, name, partial(_following, name, copied)) for name in names]


def _following(name: str, copied: Copied, method: Any) -> Any:
    def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        result = method(tensor, *args, **kwargs)
        if torch.compiler.is_compiling():
            return result
        source: Any = tensor
        copy = result
        if name == "copy_":
            source, copy = args[0] if args else kwargs.get("src"), tensor
        with _without_subclasses():
            leaf = copy if name in _CASTS else tensor
            if isinstance(source, torch.Tensor) and copy is not source and leaf.is_leaf:
                copied(source, copy)
        return result

    return call
