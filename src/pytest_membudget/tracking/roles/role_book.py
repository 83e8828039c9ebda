"""RoleBook: finds parameters, buffers, gradients and optimizer states by PyTorch's hooks."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ... import components
from ..record import HELD, Record
from ..running_code.replaced import Hooks, Replacement
from .computed import NO_GRAPH_TASK, Computed, Note
from .tensor_parts import dtype_name, named_tensors, owners, scales


class Step(NamedTuple):
    """A running step of an optimizer."""

    task: int
    """The backward (graph task) that it runs in; -1 outside any."""
    optimizer: weakref.ref[Optimizer]


class RoleBook(Hooks):
    """Notes the role of storages through PyTorch's public hooks on modules and optimizers.

    Known limitations: a gradient that a hook of the user's own drops at once is seen only where autograd
    passes it on (``see_gradient``); states that an optimizer keeps outside ``optimizer.state`` (closures,
    globals) count as temporaries.
    """

    def __init__(
        self,
        note: Note,
        on_change: Callable[[], None] = lambda: None,
        on_step: Callable[[Optimizer], None] = lambda optimizer: None,
    ) -> None:
        """``on_change``: called when an optimizer's step begins or ends, and a parameter is registered.
        ``on_step``: called when one has ended outside of a backward.
        """
        self._note = note
        self._changed = on_change
        self._stepped = on_step
        self._parameters: dict[int, weakref.KeyedRef[int, torch.Tensor]] = {}
        self._leaves: dict[int, weakref.KeyedRef[int, torch.Tensor]] = {}
        self._names: dict[int, str] = {}
        self.computed = Computed(note, on_change)
        self._forget_one = self._forget  # one bound method for all of them
        #: the running steps of optimizers, the outer ones first
        self.steps: list[Step] = []
        self._has_optimizer = self._has_gradient = False

    @property
    def is_untrained(self) -> bool:
        """Whether there was an optimizer, and no gradient."""
        return self._has_optimizer and not self._has_gradient

    def _hooked(self) -> list[Any]:
        hooks = nn.modules.module
        return [
            hooks.register_module_parameter_registration_hook(self._parameter_registered),
            hooks.register_module_buffer_registration_hook(self._buffer_registered),
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ended),
            Replacement(Optimizer, "__init__", self._making),  # torch has hooks of one optimizer
            Replacement(Optimizer, "load_state_dict", self._loading),
            Replacement(torch.utils, "swap_tensors", self._swapping),
            Replacement(nn.Module, "_apply", self._moving),
        ]

    @contextlib.contextmanager
    def paused(self, optimizers: Iterable[Optimizer]) -> Iterator[None]:
        """A context without hooks that records only a step of ``optimizers``."""
        with self.without_hooks():
            for optimizer in optimizers:
                self._step_begins(optimizer, (), {})
            try:
                yield
            finally:
                for optimizer in optimizers:
                    self._step_ended(optimizer, (), {})

    def see_module(self, root: nn.Module, *, recurse: bool = True) -> None:
        """Record all parameters and buffers of ``root`` with their paths in it; those below too."""
        for name, parameter in root.named_parameters(recurse=recurse):
            self.see_parameter(parameter, name)
        for name, buffer in root.named_buffers(recurse=recurse):
            self._note_role(buffer, components.BUFFERS, name)

    def see_parameter(self, parameter: torch.Tensor, name: str | None = None) -> None:
        """Record a parameter; ``name``: its path, or its own name if the path is not known yet."""
        key = id(parameter)
        if key not in self._parameters:
            self._parameters[key] = weakref.KeyedRef(parameter, self._forget_one, key)
        if name is not None and len(name) > len(self._names.get(key, "")):
            self._names[key] = name
        own_name = self._names.get(key)
        frozen = not parameter.requires_grad
        role = components.FROZEN_PARAMETERS if frozen else components.PARAMETERS
        self._note_role(parameter, role, own_name)
        if not parameter.is_leaf:  # computed, and put in a parameter's place: gradients pass through it
            self._note_trained(parameter)
        for label, tensor in scales(parameter):
            self._note_role(tensor, role, f"{own_name}.{label}" if own_name else label)

    def see_gradient(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """``gradient`` is, or is about to be, the ``.grad`` of ``parameter``, a leaf of the graph."""
        self._has_gradient = True
        key = id(parameter)
        name = self._names.get(key)
        # the whole parameters that FSDP gathers are registered with no module
        is_parameter = key in self._parameters or isinstance(parameter, nn.Parameter)
        leaf, *others = owners(parameter)
        for part in (leaf, *others):
            self._note(Record.note_trained, [part], is_parameter)
        for part in owners(gradient):
            self._note(Record.note_gradient, [part, leaf], name, is_parameter)

    def see_leaf(self, leaf: torch.Tensor) -> None:
        """A backward may give ``leaf`` of its graph a gradient, though no module has it."""
        key = id(leaf)
        if key not in self._parameters and key not in self._leaves:
            self._leaves[key] = weakref.KeyedRef(leaf, self._forget_one, key)

    def see_gradients(self) -> None:
        """Record the ``.grad`` of every known leaf."""
        for reference in [*self._parameters.values(), *self._leaves.values()]:
            parameter = reference()
            if parameter is not None and parameter.grad is not None:
                self.see_gradient(parameter, parameter.grad)

    def _parameter_registered(self, module: nn.Module, name: str, parameter: torch.Tensor | None) -> None:
        if parameter is not None:
            self.see_parameter(parameter, name)
            self._changed()

    def _buffer_registered(self, module: nn.Module, name: str, buffer: torch.Tensor | None) -> None:
        if buffer is not None:
            self._note_role(buffer, components.BUFFERS, name)

    def _step_begins(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self.steps.append(Step(torch._C._current_graph_task_id(), weakref.ref(optimizer)))
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.see_parameter(parameter)
                self._note_trained(parameter)
                if parameter.grad is not None:
                    self.see_gradient(parameter, parameter.grad)
        self._changed()

    def _step_ended(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        task = self.steps.pop().task if self.steps else NO_GRAPH_TASK
        self._note_states(optimizer)
        if task == NO_GRAPH_TASK and not self.steps:
            self._stepped(optimizer)
        self._changed()

    def see_steps_end(self) -> None:
        """Running steps end early, with the states that they have made: memory has run out."""
        while self.steps:
            optimizer = self.steps.pop().optimizer()
            if optimizer is not None:
                self._note_states(optimizer)
        self._changed()

    def _making(self, init: Any) -> Any:
        @functools.wraps(init)
        def make(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            self._has_optimizer = True
            init(optimizer, *args, **kwargs)

        return make

    def _loading(self, load: Any) -> Any:
        def load_state_dict(optimizer: Optimizer, state_dict: Any) -> None:
            load(optimizer, state_dict)
            self._note_states(optimizer)

        return load_state_dict

    def _swapping(self, swap: Any) -> Any:
        """A context without our weak references: torch refuses to swap tensors that have any.

        torchtune's and torchao's quantised weights take a parameter's place so, and ``nn.Module.to`` under
        ``torch.__future__.set_swap_module_params_on_conversion``.
        """

        def swap_tensors(first: torch.Tensor, second: torch.Tensor) -> None:
            known = [tensor for tensor in (first, second) if self._parameters.pop(id(tensor), None)]
            for tensor in (first, second):
                self._leaves.pop(id(tensor), None)
            try:
                swap(first, second)
            finally:
                for tensor in known:
                    self.see_parameter(tensor)
                self._changed()

        return swap_tensors

    def _moving(self, apply: Any) -> Any:
        """``nn.Module.to`` and its like give a parameter other memory, and register nothing."""

        def move(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
            moved: nn.Module = apply(module, *args, **kwargs)
            self.see_module(module, recurse=False)
            for parameter in module.parameters(recurse=False):
                if parameter.grad is not None:
                    self.see_gradient(parameter, parameter.grad)
            self._changed()
            return moved

        return move

    def _note_states(self, optimizer: Optimizer) -> None:
        for parameter, state in optimizer.state.items():
            name = self._names.get(id(parameter))
            for key, tensor in named_tensors(state):
                self._note_role(tensor, components.OPTIMIZER_STATES, f"{name}.{key}" if name else key)

    def _note_trained(self, parameter: torch.Tensor) -> None:
        for part in owners(parameter):
            self._note(Record.note_trained, [part])

    def _note_role(self, tensor: torch.Tensor, role: str, name: str | None) -> None:
        for part in owners(tensor):
            self._note(Record.note_role, [part], role, name, dtype_name(part.dtype))
            if role in HELD:
                self.computed.holds(part)

    def _forget(self, reference: weakref.KeyedRef[int, torch.Tensor]) -> None:
        self._parameters.pop(reference.key, None)
        self._leaves.pop(reference.key, None)
        self._names.pop(reference.key, None)
