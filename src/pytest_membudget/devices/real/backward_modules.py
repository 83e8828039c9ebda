"""BackwardModules: finds the module whose forward the running part of a backward belongs to.

A backward runs a module's nodes from its outputs to its inputs. So a hook of the node that made an output
of a module enters the module's state, and a hook of the node that made an input that of the module around it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import nn

from .sightings import State

#: Key in the metadata of nodes with a hook: the first hook is of the innermost module.
_HAS_HOOK: Final = "membudget"


class BackwardModules:
    """Follows the inputs and outputs of modules in forward, by PyTorch's global hooks."""

    def __init__(self, here: Callable[[], State], entered: Callable[[State], None]) -> None:
        """``here``: the state that a node is made in. ``entered``: called with it when the node runs."""
        self._here = here
        self._entered = entered
        self._handles: list[Any] = []
        #: one hook for all nodes that were made in a state
        self._hooks: dict[State, _NodeHook] = {}

    def install(self) -> None:
        """Start, before other hooks on modules: ``here`` is then outside the module that begins, and inside
        the one that ends.
        """
        hooks = nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begins),
            hooks.register_module_forward_hook(self._ended),
        ]

    def remove(self) -> None:
        """Stop."""
        for handle in self._handles:
            handle.remove()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context without the hooks on modules."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        try:
            yield
        finally:
            if handles:
                self.install()

    def _begins(self, module: nn.Module, args: Any) -> None:
        self.see(args)

    def _ended(self, module: nn.Module, args: Any, output: Any) -> None:
        self.see(output)

    def see(self, values: Any) -> None:
        """``values`` are the arguments or the result of a module."""
        if not torch.is_grad_enabled():
            return
        for tensor in _tensors(values):
            node: Any = tensor.grad_fn
            if node is not None and _HAS_HOOK not in node.metadata:
                node.metadata[_HAS_HOOK] = True
                node.register_prehook(self._hook(self._here()))

    def _hook(self, state: State) -> _NodeHook:
        if state not in self._hooks:
            self._hooks[state] = _NodeHook(self._entered, state)
        return self._hooks[state]


class _NodeHook:
    """A hook of nodes; it changes no gradient."""

    __slots__ = ("_entered", "_state")

    def __init__(self, entered: Callable[[State], None], state: State) -> None:
        self._entered = entered
        self._state = state

    def __call__(self, gradients: object) -> None:
        self._entered(self._state)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _tensors(value)
