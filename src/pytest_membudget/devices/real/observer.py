"""Follows a run on a real device by PyTorch's hooks alone: no dispatch mode, which would change what it does.

Under a dispatch mode autograd avoids in-place work. Hooks on modules and optimizers, and one before a
backward's first nodes, allocate nothing and keep no tensor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ...tracking.modules import ModuleStack
from ...tracking.record import Phase
from ...tracking.roles import RoleBook
from ...tracking.source import SourceFinder
from ...tracking.tracker import NO_GRAPH_TASK
from .backward_modules import BackwardModules
from .compiled_calls import COMPILED_CALLS, Follower
from .copied_parameters import CopiedParameters
from .sightings import LateSightings, storage_address
from .states import Line, State, StateLog


class Observer:
    """Names what the step is doing to the allocator (``tell``), and keeps the roles that it sees."""

    def __init__(
        self,
        tell: Callable[[str], object],
        address_of: Callable[[torch.Tensor], int] = storage_address,
        source: SourceFinder | None = None,
    ) -> None:
        """``source``: finds the user's line that calls a backward."""
        self._source = source
        self.log = StateLog(tell)
        self.sightings = LateSightings(lambda: self.log.current, address_of)
        self.modules = ModuleStack(self._root_called, self._root_ended, self._changed)
        self.roles = RoleBook(self.sightings, self._changed)
        self._copies = CopiedParameters(self.roles.see_parameter)
        self._backward_modules = BackwardModules(self._here, self._node_runs)
        self._follower = Follower(self._away, self._backward_modules.tell)
        self._run_backward: Any = None
        #: that the running nodes of a backward were made in
        self._node_module: str | None = None
        #: that has called the running backward
        self._caller: Line | None = None

    def install(self) -> None:
        """Start to follow."""
        self._copies.install()
        self._backward_modules.install()
        self.modules.install()
        self.roles.install()
        COMPILED_CALLS.add(self._follower)
        graph: Any = torch.autograd.graph
        self._run_backward = graph._engine_run_backward
        for module in _engine_callers():
            module._engine_run_backward = self._backward

    def remove(self) -> None:
        """Stop, with a last look at the gradients."""
        self.roles.see_gradients()
        self.log.renew()
        COMPILED_CALLS.discard(self._follower)
        self._copies.remove()
        self._backward_modules.remove()
        self.modules.remove()
        self.roles.remove()
        for module in _engine_callers():
            module._engine_run_backward = self._run_backward

    @contextlib.contextmanager
    def _away(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer]) -> Iterator[None]:
        # the last to go is the first to be back: see ``BackwardModules.install``
        with (
            self.modules.paused(module),
            self.roles.paused(optimizers),
            self._backward_modules.paused(),
        ):
            yield

    def _backward(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The engine's run: its threads are told the state too, which they do not share with the caller."""
        if torch._guards.TracingContext.try_get() is not None:  # what a compiler traces is no run
            return self._run_backward(outputs, *args, **kwargs)
        caller, self._caller = self._caller, self._users_line()
        self.log.renew()
        handles = [node.register_prehook(self._backward_begins) for node in _nodes_of(outputs)]
        self.sightings.note_mark()
        try:
            return self._run_backward(outputs, *args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
            self.roles.see_gradients()
            self._caller = caller
            self._changed()

    def _users_line(self) -> Line | None:
        """The line that runs; within a backward's own threads that of the backward around it."""
        code, line = self._source.find(2) if self._source is not None else (None, 0)
        return (code.co_filename, line) if code is not None else self._caller

    def _backward_begins(self, gradients: object) -> None:
        self._node_module = None
        self.log.enter(State(Phase.BACKWARD, line=self._caller))

    def _here(self) -> State:
        """Where a backward is while it runs the nodes that are made now."""
        return State(Phase.BACKWARD, self.modules.path)

    def _node_runs(self, made_in: State) -> None:
        self._node_module = made_in.module
        self.log.enter(made_in._replace(line=self._caller))

    def _root_called(self, module: nn.Module) -> None:
        self.modules.name_children(module)
        self.roles.see_module(module)

    def _root_ended(self, number: int) -> None:
        self.sightings.note_root_call_end(number)
        if torch._C._current_graph_task_id() != NO_GRAPH_TASK:  # a recomputation hands on to its backward
            self.sightings.note_mark()

    def _changed(self) -> None:
        phase, module = self._phase(), self.modules.path
        if phase is Phase.BACKWARD and module is None:  # a recomputation has ended, its node goes on
            module = self._node_module
        line = self._caller if phase is Phase.BACKWARD else None
        self.log.enter(State(phase, module, self.modules.root_call, line))

    def _phase(self) -> Phase:
        task = torch._C._current_graph_task_id()
        steps = self.roles.steps
        if steps and steps[-1] == task and self.modules.root_call is None:
            return Phase.OPTIMIZER
        if task == NO_GRAPH_TASK:
            return Phase.FORWARD
        return Phase.RECOMPUTE if torch.is_grad_enabled() else Phase.BACKWARD


def _engine_callers() -> tuple[Any, ...]:
    """The modules of torch that have the engine's entry under a name of their own."""
    return (torch.autograd.graph, torch.autograd)


def _nodes_of(outputs: Any) -> list[Any]:
    tensors = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [node for node in (getattr(tensor, "grad_fn", None) for tensor in tensors) if node is not None]
