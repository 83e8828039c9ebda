"""Which nn.Module is running, by its path from the outermost one; and what compiled functions use."""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from .replaced import Hooks


class ModuleStack(Hooks):
    """The running modules, from the outermost in, kept by PyTorch's global forward hooks."""

    def __init__(
        self,
        on_root_call: Callable[[nn.Module], None],
        on_root_end: Callable[[nn.Module, int], None],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_change``: called when a module begins or ends, after the other two callbacks."""
        self._stack: list[nn.Module] = []
        # by id: tensordict's parameters are a module too, and have no truth of whether they are equal
        self._named: weakref.WeakValueDictionary[int, nn.Module] = weakref.WeakValueDictionary()
        self._names: dict[int, str] = {}
        self._on_root_call = on_root_call
        self._on_root_end = on_root_end
        self._on_change = on_change
        self._root_calls = 0

    def _hooked(self) -> list[Any]:
        hooks = torch.nn.modules.module
        return [
            hooks.register_module_forward_pre_hook(self._enter),
            # always_call: a checkpoint's recomputation ends early, by an exception
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    @contextlib.contextmanager
    def paused(self, module: nn.Module | None) -> Iterator[None]:
        """A context without hooks that records only a call of ``module``."""
        with self.without_hooks():
            if module is not None:
                self._enter(module, ())
            try:
                yield
            finally:
                if module is not None:
                    self._leave(module, (), None)

    @property
    def path(self) -> str | None:
        """Path of the innermost running module in the outermost one that has it; None outside any.

        The outermost itself has its class's name.
        """
        module = self._stack[-1] if self._stack else None
        return self._name(module) or type(module).__name__ if module is not None else None

    @property
    def root_call(self) -> int | None:
        """Number of the running outermost call; None outside any."""
        return self._root_calls if self._stack else None

    def name_children(self, root: nn.Module) -> None:
        """Give every module below ``root`` its path, unless it has one from a larger module."""
        for name, module in root.named_modules():
            known = self._name(module)
            if name and (known is None or len(known) < len(name)):
                self._names[id(module)], self._named[id(module)] = name, module

    def _name(self, module: nn.Module) -> str | None:
        return self._names[id(module)] if self._named.get(id(module)) is module else None

    def _enter(self, module: nn.Module, args: object) -> None:
        if not self._stack:
            self._root_calls += 1
            self._on_root_call(module)
        self._stack.append(module)
        self._on_change()

    def _leave(self, module: nn.Module, args: object, output: object) -> None:
        # a module whose forward raised before its hooks ran is still on the stack: drop it too
        while self._stack:
            if self._stack.pop() is module:
                break
        if not self._stack:
            self._on_root_end(module, self._root_calls)
        self._on_change()


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
