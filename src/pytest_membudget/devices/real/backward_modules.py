"""Which module's forward the running part of a backward belongs to.

A backward runs a module's nodes from its outputs to its inputs. So the node that made an output of a module
is told to say, when it runs, that the module's part begins; and the node that made an input, that the part of
the module around begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from torch import nn

from .states import State

#: Marks a node that says where it was made: the first to tell it was the innermost.
_TOLD: Final = "membudget"


class BackwardModules:
    """Follows the inputs and outputs of modules in forward, by PyTorch's global hooks."""

    def __init__(self, here: Callable[[], State], entered: Callable[[State], None]) -> None:
        """``here``: the state that a node was made in. ``entered``: told it when the node runs."""
        self._here = here
        self._entered = entered
        self._handles: list[Any] = []
        #: the hooks: one for all nodes that were made in a state
        self._sayings: dict[State, _Saying] = {}

    def install(self) -> None:
        """Start; to be called before others follow modules: ``here`` is then outside the module that begins,
        and inside the one that ends.
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
        """Follow no module."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        try:
            yield
        finally:
            if handles:
                self.install()

    def _begins(self, module: nn.Module, args: Any) -> None:
        self.tell(args)

    def _ended(self, module: nn.Module, args: Any, output: Any) -> None:
        self.tell(output)

    def tell(self, values: Any) -> None:
        """``values`` go into a module, or have come out of it."""
        if not torch.is_grad_enabled():
            return
        for tensor in _tensors(values):
            node: Any = tensor.grad_fn
            if node is not None and _TOLD not in node.metadata:
                node.metadata[_TOLD] = True
                node.register_prehook(self._saying(self._here()))

    def _saying(self, state: State) -> _Saying:
        if state not in self._sayings:
            self._sayings[state] = _Saying(self._entered, state)
        return self._sayings[state]


class _Saying:
    """The hook of one node; it changes no gradient."""

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
