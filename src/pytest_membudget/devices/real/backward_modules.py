"""BackwardModules: finds the module whose forward the running part of a backward belongs to.

A backward runs a module's nodes from its outputs to its inputs. So a hook of the node that made an output
of a module enters the module's state, and a hook of the node that made an input that of the module around it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import nn

from ..fake.on_host import tensors_in
from .run_log import State

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
        self._hooks: dict[State, Callable[[object], None]] = {}

    def install(self) -> None:
        """Start, before other hooks on modules: ``here`` is then outside the module that begins, and inside
        the one that ends.
        """
        hooks = nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(lambda module, args: self.see(args)),
            hooks.register_module_forward_hook(lambda module, args, output: self.see(output)),
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

    def see(self, values: Any) -> None:
        """``values`` are the arguments or the result of a module."""
        if not torch.is_grad_enabled():
            return
        for tensor in tensors_in(values):
            node: Any = tensor.grad_fn
            if node is not None and _HAS_HOOK not in node.metadata:
                node.metadata[_HAS_HOOK] = True
                node.register_prehook(self._hook(self._here()))

    def _hook(self, state: State) -> Callable[[object], None]:
        # its result is None: it changes no gradient
        return self._hooks.setdefault(state, lambda gradients: self._entered(state))
