"""Parameters, buffers, gradients and optimizer states, as the running code shows them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .. import components
from .ledger import Ledger
from .modules import ModuleStack


class RoleBook:
    """Notes the role of storages through PyTorch's public hooks on modules and optimizers.

    Known limitations: a gradient that a hook of the user's own drops at once is seen only where autograd
    hands it over (``see_gradient``); states that an optimizer keeps outside ``optimizer.state`` (closures,
    globals) count as temporaries.
    """

    def __init__(self, ledger: Ledger, modules: ModuleStack) -> None:
        self._ledger = ledger
        self._modules = modules
        self._parameters: dict[int, weakref.ref[torch.Tensor]] = {}
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []
        self.in_optimizer = 0

    def install(self) -> None:
        """Start to follow the modules and optimizers of this process."""
        hooks = nn.modules.module
        self._handles = [
            hooks.register_module_parameter_registration_hook(self._parameter_registered),
            hooks.register_module_buffer_registration_hook(self._buffer_registered),
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ended),
        ]

    def remove(self) -> None:
        """Stop following."""
        for handle in self._handles:
            handle.remove()

    def see_module(self, root: nn.Module) -> None:
        """Note all parameters and buffers of ``root`` with their paths in it."""
        for name, parameter in root.named_parameters():
            self.see_parameter(parameter, name)
        for name, buffer in root.named_buffers():
            self._note(buffer, components.BUFFERS, name)

    def see_parameter(self, parameter: torch.Tensor, name: str | None = None) -> None:
        """``parameter`` is one; ``name`` its path, or its own name where the path is not known yet."""
        key = id(parameter)
        if key not in self._parameters:
            self._parameters[key] = weakref.ref(parameter, lambda _: self._forget(key))
        if name is not None and len(name) > len(self._names.get(key, "")):
            self._names[key] = name
        frozen = not parameter.requires_grad
        role = components.FROZEN_PARAMETERS if frozen else components.PARAMETERS
        self._note(parameter, role, self._names.get(key))

    def see_gradient(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """``gradient`` is, or is about to be, the ``.grad`` of ``parameter``, a leaf of the graph.

        A leaf that is neither a parameter nor made by the user is a reentrant checkpoint's copy of its
        input: its gradient is on its way through, a temporary.
        """
        if id(parameter) not in self._parameters:
            record = self._record(parameter)
            if record is None or not record.from_inputs:
                return
        self._trained(parameter)
        self._note(gradient, components.GRADIENTS, self._names.get(id(parameter)))

    def see_gradients(self) -> None:
        """Note the ``.grad`` of every known parameter."""
        for reference in list(self._parameters.values()):
            parameter = reference()
            if parameter is not None and parameter.grad is not None:
                self.see_gradient(parameter, parameter.grad)

    def _parameter_registered(self, module: nn.Module, name: str, parameter: torch.Tensor | None) -> None:
        if parameter is not None:
            self.see_parameter(parameter, name)

    def _buffer_registered(self, module: nn.Module, name: str, buffer: torch.Tensor | None) -> None:
        if buffer is not None:
            self._note(buffer, components.BUFFERS, name)

    def _step_begins(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self.in_optimizer += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.see_parameter(parameter)
                self._trained(parameter)
                if parameter.grad is not None:
                    self.see_gradient(parameter, parameter.grad)

    def _step_ended(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self.in_optimizer = max(0, self.in_optimizer - 1)
        for parameter, state in optimizer.state.items():
            name = self._names.get(id(parameter))
            for key, tensor in _tensors_in(state, ""):
                label = f"{name}.{key}" if name else key
                self._note(tensor, components.OPTIMIZER_STATES, label)

    def _forget(self, key: int) -> None:
        self._parameters.pop(key, None)
        self._names.pop(key, None)

    def _trained(self, parameter: torch.Tensor) -> None:
        record = self._record(parameter)
        if record is not None:
            record.trained = True

    def _record(self, tensor: torch.Tensor) -> Any:
        if tensor.layout is not torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return None  # it has no storage of its own
        return self._ledger.live.get(tensor.untyped_storage()._cdata)

    def _note(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        record = self._record(tensor)
        if record is None:
            return
        if record.role is None or record.role in _CHANGEABLE.get(role, ()):
            record.role = role
        if name is not None and (record.name is None or len(name) > len(record.name)):
            record.name = name


#: which earlier role a later one may replace: parameters are frozen and thawed, and a buffer or a plain
#: tensor's storage may turn out to be a parameter's
_CHANGEABLE = {
    components.PARAMETERS: (components.FROZEN_PARAMETERS, components.BUFFERS),
    components.FROZEN_PARAMETERS: (components.PARAMETERS, components.BUFFERS),
}


def _tensors_in(state: object, key: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(state, torch.Tensor):
        yield key, state
    elif isinstance(state, dict):
        for name, value in state.items():
            yield from _tensors_in(value, f"{key}.{name}" if key else str(name))
    elif isinstance(state, (list, tuple)):
        for index, value in enumerate(state):
            yield from _tensors_in(value, f"{key}.{index}" if key else str(index))
