"""RunObserver: records a run on a real device by PyTorch's hooks, without a dispatch mode.

A dispatch mode would change the run: autograd then avoids in-place operations. Hooks on modules and
optimizers, and one before a backward's first nodes, allocate nothing and keep no tensor.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.cuda.memory import memory_stats_as_nested_dict

from ...tracking.ledger import Ledger, StepKind
from ...tracking.record import Line, Phase, Record
from ...tracking.roles.computed import NO_GRAPH_TASK, Note
from ...tracking.roles.role_book import RoleBook
from ...tracking.roles.tensor_parts import dtype_name, owners, tensors_in
from ...tracking.running_code.modules import ModuleStack
from ...tracking.running_code.replaced import Hooks, Replacement
from ...tracking.running_code.source import SourceFinder
from .compiled_calls import CompiledCalls
from .compiled_code import follow_inductor, leave_inductor
from .forward_lines import ForwardLines
from .run_log import RunLog, State

#: Key in the metadata of nodes with a hook: the first hook is of the innermost module.
_HAS_HOOK: Final = "membudget"


class RunObserver(Hooks):
    """Passes the step's state to the allocator (``set_metadata``), and records what storages are for."""

    def __init__(self, set_metadata: Callable[[str], object], source: SourceFinder) -> None:
        """``source``: finds the user's line that calls a backward."""
        self._source = source
        self.log = RunLog(set_metadata)
        #: has the notes of tensors on the host, and of the run
        self.host_note: Note = lambda write, tensors, *args: None
        #: called when a backward has ended
        self.backward_ended: Callable[[], None] = lambda: None
        self.modules = ModuleStack(self._root_called, self._root_ended, self._changed)
        self.roles = RoleBook(self._note, self._changed, self._stepped)
        self.forward_lines = ForwardLines(source, self._line_runs)
        self._backward_modules = BackwardModules(self._here, self._node_runs, self._see_dtype)
        self._compiled_calls = CompiledCalls(self._paused, self._backward_modules.see)
        #: the module in which the running nodes of a backward were made
        self._node_module: str | None = None
        #: the line of the forward that made the running node
        self._forward: Line | None = None
        #: the line that called the running backward
        self._caller: Line | None = None
        #: the outermost module that was called last
        self._root = 0

    def _hooked(self) -> list[Replacement]:
        self._backward_modules.install()
        self.modules.install()
        self.roles.install()
        self._compiled_calls.install()
        follow_inductor(self.roles.computed)
        return [
            *around_backwards(self._following),
            # no module registers the parameters that ``copy.deepcopy`` makes
            Replacement(nn.Parameter, "__deepcopy__", self._copying),
        ]

    def remove(self) -> None:
        """Remove the hooks, after a last record of the gradients."""
        self.roles.see_gradients()
        self.log.renew()
        self.forward_lines.is_on = False
        self._compiled_calls.remove()
        leave_inductor(self.roles.computed)
        self._backward_modules.remove()
        self.modules.remove()
        self.roles.remove()
        super().remove()

    def body_ended(self) -> None:
        """Record what is held, while the parameters live."""
        self.roles.see_gradients()
        self.log.note(Ledger.end_body, (), allocated_bytes())
        self.log.renew()

    # a new number before the next allocations: buffers of collectives are short-lived

    def note_collective(self, tensor: torch.Tensor, *, kept: bool) -> None:
        """A collective uses ``tensor``; ``kept``: it is a buffer that is kept for that."""
        for part in owners(tensor):
            self.log.note(Record.note_collective, [part], kept)
        self.log.renew()

    def see_gradient(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """``gradient`` is that of ``parameter``, which no module has."""
        self.roles.see_gradient(parameter, gradient)
        self.log.renew()

    @contextlib.contextmanager
    def _paused(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer]) -> Iterator[None]:
        # the last to be removed is the first to be installed again: see ``BackwardModules._hooked``
        with (
            self.modules.paused(module),
            self.roles.paused(optimizers),
            self._backward_modules.without_hooks(),
        ):
            yield

    def _note(self, write: Callable[..., None], tensors: Sequence[torch.Tensor], *args: object) -> None:
        """A note of the run is of the card and the host, one of tensors of where the first of them is."""
        if not tensors or tensors[0].is_cpu:
            self.host_note(write, tensors, *args)
        if not tensors or tensors[0].is_cuda:
            self.log.note(write, tensors, *args)

    def _copying(self, copy: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def deepcopy(parameter: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
            copied = copy(parameter, memo)
            self.roles.see_parameter(copied)
            return copied

        return deepcopy

    def _following(self, run_backward: Callable[..., Any]) -> Callable[..., Any]:
        def backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            if torch._guards.TracingContext.try_get() is not None:  # a compiler traces it
                return run_backward(outputs, *args, **kwargs)
            with self._in_backward(outputs):
                results = run_backward(outputs, *args, **kwargs)
                if not kwargs.get("accumulate_grad"):
                    self._see_returned(args[3], results)
                self.backward_ended()
                return results

        return backward

    def _see_returned(self, inputs: Any, gradients: Any) -> None:
        """``torch.autograd.grad`` of ``inputs`` has given ``gradients``."""
        for leaf, gradient in zip(inputs, gradients, strict=True):
            if isinstance(leaf, torch.Tensor) and leaf.is_leaf and gradient is not None:
                self.roles.see_gradient(leaf, gradient)

    @contextlib.contextmanager
    def _in_backward(self, outputs: Any) -> Iterator[None]:
        """Enters the backward's state in the engine's threads too, which do not share the caller's."""
        caller, self._caller = self._caller, self._users_line()
        self.log.renew()
        nodes: list[Any] = [tensor.grad_fn for tensor in tensors_in(outputs) if tensor.grad_fn is not None]
        handles = [node.register_prehook(self._backward_begins) for node in nodes]
        self._see_graph(nodes)
        self._note(Ledger.mark, ())
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self.roles.see_gradients()
            self._caller = caller
            if caller is None:
                self._note(Ledger.end_backward, ())
                self._end_step(StepKind.BACKWARD, None)
            self._changed()

    def _see_graph(self, nodes: Iterable[Any]) -> None:
        """What the backward of ``nodes`` may run: its leaves, and the lines that made its nodes.

        None is kept while it runs: the tensors of some would live longer.
        """
        for node in _graph(nodes):
            if node.name().endswith("AccumulateGrad"):
                self.roles.see_leaf(node.variable)
            else:
                self.forward_lines.follow(node)

    def _users_line(self) -> Line | None:
        """The running line; in a backward's threads the line that called the outer backward."""
        file, line = self._source.find(2)
        return (file, line) if file is not None else self._caller

    def _backward_begins(self, gradients: object) -> None:
        self._node_module = self._forward = None
        self.log.enter(State(Phase.BACKWARD, line=self._caller))

    def _here(self) -> State:
        """The state in which a backward runs the nodes that are made now."""
        return State(Phase.BACKWARD, self.modules.path)

    def _node_runs(self, made_in: State) -> None:
        self._node_module = made_in.module
        self.log.enter(made_in._replace(line=self._caller))

    def _see_dtype(self, tensor: torch.Tensor) -> None:
        for part in owners(tensor):
            self.log.note(Record.note_dtype, [part], dtype_name(part.dtype))

    def _line_runs(self, forward: Line | None) -> None:
        self._forward = forward
        self.log.enter(State(Phase.BACKWARD, self._node_module, line=self._caller, forward=forward))

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._end_step(StepKind.OPTIMIZER, id(optimizer))

    def _end_step(self, kind: StepKind, of: object) -> None:
        self.log.note(Ledger.end_step, (), kind, of)

    def _root_called(self, module: nn.Module) -> None:
        self._root = id(module)
        self.log.outermost.add(type(module).__name__)
        self.modules.name_children(module)
        self.roles.see_module(module)

    def _root_ended(self, module: nn.Module, number: int) -> None:
        self.roles.see_module(module)  # it may have given parameters other memory
        self._note(Ledger.end_root_call, (), number)
        if torch._C._current_graph_task_id() == NO_GRAPH_TASK:
            self._end_step(StepKind.CALL, self._root)
        else:  # after a recomputation its backward follows
            self._note(Ledger.mark, ())

    def _changed(self) -> None:
        self.log.enter(self.state())

    def state(self) -> State:
        """The state of the step in this thread."""
        phase, module = self._phase(), self.modules.path
        if phase is Phase.BACKWARD and module is None:  # a recomputation has ended, its node still runs
            module = self._node_module
        line, forward = (self._caller, self._forward) if phase is Phase.BACKWARD else (None, None)
        return State(phase, module, self.modules.root_call, line, forward)

    def _phase(self) -> Phase:
        """The running phase: an optimizer may step inside a backward, and its closure runs both passes."""
        task, steps = torch._C._current_graph_task_id(), self.roles.steps
        if steps and steps[-1].task == task and self.modules.root_call is None:
            return Phase.OPTIMIZER
        if task == NO_GRAPH_TASK:
            return Phase.FORWARD
        return Phase.RECOMPUTE if torch.is_grad_enabled() else Phase.BACKWARD


def _graph(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes from ``nodes`` on, each once."""
    found = set(nodes)
    ahead = [*found]
    while ahead:
        node = ahead.pop()
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in found:
                found.add(before)
                ahead.append(before)


class BackwardModules(Hooks):
    """Finds the module whose forward the running part of a backward belongs to.

    A backward runs a module's nodes from its outputs to its inputs. So a hook of the node that made an output
    of a module enters the module's state, and a hook of the node that made an input that of the module around
    it.
    """

    def __init__(
        self,
        here: Callable[[], State],
        entered: Callable[[State], None],
        passed: Callable[[torch.Tensor], None],
    ) -> None:
        """``here``: the state that a node is made in. ``entered``: called with it when the node runs.

        ``passed``: called with each tensor that a module takes or returns, where gradients are recorded.
        """
        self._here = here
        self._entered = entered
        self._passed = passed
        #: one hook for all nodes that were made in a state
        self._hooks: dict[State, Callable[[object], None]] = {}

    def _hooked(self) -> list[Any]:
        # before other hooks on modules: ``here`` is then outside the module that begins, and inside the one
        # that ends
        hooks = nn.modules.module
        return [
            hooks.register_module_forward_pre_hook(lambda module, args: self.see(args)),
            hooks.register_module_forward_hook(lambda module, args, output: self.see(output)),
        ]

    def see(self, values: Any) -> None:
        """``values`` are the arguments or the result of a module."""
        if not torch.is_grad_enabled():
            return
        for tensor in tensors_in(values):
            self._passed(tensor)
            node: Any = tensor.grad_fn
            if node is not None and _HAS_HOOK not in node.metadata:
                node.metadata[_HAS_HOOK] = True
                node.register_prehook(self._hook(self._here()))

    def _hook(self, state: State) -> Callable[[object], None]:
        # its result is None: it changes no gradient
        return self._hooks.setdefault(state, lambda gradients: self._entered(state))


def around_backwards(wrap: Callable[[Any], Any]) -> list[Replacement]:
    """Replace the engine's entry, under the names by which torch calls it, by ``wrap`` of it."""
    return [Replacement(one, "_engine_run_backward", wrap) for one in (torch.autograd.graph, torch.autograd)]


def allocated_bytes(counter: str = "current") -> int:
    """What is allocated now; so far, what was ``allocated`` or ``freed``.

    PyTorch's counter, as a body may have ended the history or begun another.
    """
    if not torch.cuda.is_initialized():
        return 0
    # by the device's number: torch.cuda finds it by functions that the body may have replaced
    device = torch.accelerator.current_device_index()
    return int(memory_stats_as_nested_dict(device)["allocated_bytes"]["all"][counter])
