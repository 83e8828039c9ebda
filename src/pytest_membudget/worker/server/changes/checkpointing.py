"""Activation checkpointing of a model's repeated blocks."""

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.checkpoint import checkpoint

from . import Note

#: Methods that models of transformers (5.23; before it: the second) and diffusers (0.36) have for it.
_OWN: tuple[str, ...] = (
    "activation_checkpointing_enable",
    "gradient_checkpointing_enable",
    "enable_gradient_checkpointing",
)
_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def checkpoint_blocks(item: pytest.Item, note: Note) -> None:
    """Checkpoint the blocks of each model at its first call."""
    # by id: there are modules without a truth of whether they are equal
    seen: weakref.WeakValueDictionary[int, nn.Module] = weakref.WeakValueDictionary()

    def see(module: nn.Module, args: object) -> None:
        if seen.get(id(module)) is not module:
            seen.update({id(below): below for below in module.modules()})
            _checkpoint(module, note)

    register_module_forward_pre_hook(see)


def _checkpoint(module: nn.Module, note: Note) -> None:
    """Checkpoint the outermost blocks in ``module``, by its own method if it has one."""
    for name in _OWN:
        if hasattr(module, name):
            getattr(module, name)()
            note(f"model.{name}()")
            return
    blocks = list(_blocks(module)) if isinstance(module, _CONTAINERS) else []
    for block in blocks:
        block.forward = functools.partial(_checkpointed, block.forward)
    for kind, count in Counter(type(block).__name__ for block in blocks).items():
        note(f"torch.utils.checkpoint for each of {count} x {kind}")
    for child in module.children():
        if all(child is not block for block in blocks):
            _checkpoint(child, note)


def _blocks(container: nn.Module) -> Iterator[nn.Module]:
    """The children that contain modules and share their class with another child."""
    composed = [
        child
        for child in container.children()
        if not isinstance(child, _CONTAINERS) and any(True for _ in child.children())
    ]
    kinds = Counter(map(type, composed))
    return (child for child in composed if kinds[type(child)] > 1)


def _checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)
