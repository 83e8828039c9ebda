"""Tracker: records each storage of a running step: where it is allocated, and its role."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .. import components
from .ledger import HostLedger, Ledger
from .record import Phase, Record
from .roles.role_book import RoleBook, noting_now
from .roles.tensor_parts import owners, owns_storage, sparse_parts
from .running_code.modules import ModuleStack
from .running_code.source import SourceFinder
from .running_code.streams import StreamChoice

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
NO_GRAPH_TASK = -1


def running_phase(roles: RoleBook, modules: ModuleStack) -> Phase:
    """The running phase: an optimizer may step inside a backward, and its closure runs both passes."""
    task = _graph_task()
    if roles.steps and roles.steps[-1] == task and modules.root_call is None:
        return Phase.OPTIMIZER
    if task == NO_GRAPH_TASK:
        return Phase.FORWARD
    return Phase.RECOMPUTE if torch.is_grad_enabled() else Phase.BACKWARD


class Tracker:
    """Turns storages into records of the ledger; one for each traced test.

    ``on_device`` says whether a tensor's memory is the tracked device's.
    """

    def __init__(
        self, ledger: Ledger, source: SourceFinder, on_device: Callable[[torch.Tensor], bool]
    ) -> None:
        self.ledger = ledger
        self.source = source
        self.modules = ModuleStack(self._root_called, ledger.end_root_call)
        self.host = HostLedger(ledger)
        self.roles = RoleBook(noting_now(self._on_device_or_host))
        self.phase = Phase.FORWARD
        self._on_device = on_device
        self.streams = StreamChoice()
        self._task = NO_GRAPH_TASK
        #: the time at which the last backward ended; None after a module or an optimizer has run
        self._backward_end: int | None = None
        self._deaths: dict[int, weakref.ref[Any]] = {}
        #: the records of storages that were emptied
        self._emptied: dict[int, Record] = {}
        #: called with every record before its block is allocated
        self.on_request: Callable[[Record], None] | None = None

    def install(self) -> None:
        """Install the hooks on modules, parameters and optimizers."""
        self.modules.install()
        self.roles.install()

    def remove(self) -> None:
        """Stop following."""
        self.modules.remove()
        self.roles.remove()

    @contextlib.contextmanager
    def paused(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer]) -> Iterator[None]:
        """A context without hooks that records only a call of ``module`` and a step of ``optimizers``."""
        with self.modules.paused(module), self.roles.paused(optimizers):
            yield

    def begin_operator(self) -> None:
        """Determine the step's phase before an operator runs."""
        task, phase = _graph_task(), running_phase(self.roles, self.modules)
        if phase is Phase.OPTIMIZER:
            if self.phase is Phase.FORWARD:
                self._note_update()
        elif phase is Phase.FORWARD:
            if self.phase is Phase.BACKWARD or self.phase is Phase.RECOMPUTE:
                self.roles.see_gradients()
                self._backward_end = self.ledger.clock.now
        else:
            is_new = self.phase is Phase.FORWARD or task != self._task
            if is_new or (self.phase is Phase.RECOMPUTE and phase is Phase.BACKWARD):
                self.ledger.mark()
            self._task = task
        self.phase = phase

    def saw(self, tensor: torch.Tensor, operator: str, inputs: Iterable[object]) -> None:
        """Record the storage of ``tensor``, a result of ``operator``, if it is new.

        Raises the allocator's ``OutOfMemory``.
        """
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:  # a sparse tensor has no storage itself
            for part in sparse_parts(tensor):
                self.saw(part, operator, inputs)
            return
        key = storage._cdata
        if key not in self.ledger.live:
            self._record(storage, key, operator, inputs)

    def saw_on_host(self, tensor: torch.Tensor, operator: str) -> None:
        """Record the storage of ``tensor``, a result of ``operator`` on the host, if it is new."""
        if tensor.layout is not torch.strided:
            for part in sparse_parts(tensor):
                self.saw_on_host(part, operator)
            return
        storage = tensor.untyped_storage()
        key, size_bytes = storage._cdata, storage.nbytes()
        if key in self.host.live or not size_bytes:
            return
        record = self._placed(Record(size_bytes, operator, self.phase))
        self.host.born(key, record)
        self._at_end(storage, key, self.host.died)

    def pinned(self, tensor: torch.Tensor) -> None:
        """Record that ``tensor``'s storage is pinned host memory."""
        self.host.pinned(tensor.untyped_storage()._cdata)

    def resized(self, storage: torch.UntypedStorage, operator: str) -> None:
        """Update the record of ``storage`` after a resize; emptied and filled again, it keeps its role."""
        key, size_bytes = storage._cdata, storage.nbytes()
        record = self.ledger.live.get(key)
        if record is None:
            self._record(storage, key, operator, ())
            emptied = self._emptied.get(key)
            if emptied is not None and size_bytes:
                del self._emptied[key]
                self._inherit(emptied, key)
        elif size_bytes == 0:
            del self._deaths[key]
            self.ledger.died(key)
            self._remember_empty(storage, record)
        elif record.requested_bytes != size_bytes:
            self._deaths.pop(key, None)
            # torch allocates the new block before it frees the old one
            self.ledger.live[-key] = self.ledger.live.pop(key)
            self._record(storage, key, operator, ())
            self._inherit(record, key)
            self.ledger.died(-key)

    def follows(self, storage: torch.UntypedStorage) -> bool:
        """Whether ``storage`` is on the device, filled or empty."""
        return storage._cdata in self.ledger.live or storage._cdata in self._emptied

    def note_collective(self, tensor: torch.Tensor, *, kept: bool) -> None:
        """Record that a collective uses ``tensor``; ``kept``: as a permanent buffer."""
        for part in owners(tensor):
            record = self.record_of(part)
            if record is not None:
                record.note_collective(kept)

    def transient(self, size_bytes: int, operator: str) -> Record:
        """Allocate memory of a kernel of ``operator``; the caller frees it with ``release``."""
        record = self._new_record(size_bytes, operator, components.WORKSPACES)
        self.ledger.born(id(record), record, self.streams.current())
        return record

    def pass_through(self, sizes_bytes: Iterable[int], operator: str) -> None:
        """Allocate and free memory that a kernel holds until it returns."""
        with self.held(sizes_bytes, operator):
            pass

    @contextlib.contextmanager
    def held(self, sizes_bytes: Iterable[int], operator: str) -> Iterator[None]:
        """A context with memory that a kernel holds while it allocates more."""
        records = [self.transient(size, operator) for size in sizes_bytes]
        yield
        for record in records:
            self.release(record)

    def release(self, record: Record) -> None:
        """Free what ``transient`` allocated."""
        self.ledger.died(id(record))

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Record that ``stream`` also uses ``tensor``'s memory, which is freed when it is done."""
        record = self.record_of(tensor)
        if record is not None:
            self.ledger.allocator.record_stream(record.block, stream)

    def record_of(self, tensor: torch.Tensor) -> Record | None:
        """The record of ``tensor``'s storage, if it is on the device."""
        return self.ledger.live.get(tensor.untyped_storage()._cdata)

    def _on_device_or_host(self, tensor: torch.Tensor) -> Record | None:
        if not owns_storage(tensor):
            return None
        key = tensor.untyped_storage()._cdata
        return self.ledger.live.get(key) or self.host.live.get(key)

    def _record(self, storage: Any, key: int, operator: str, inputs: Iterable[object]) -> None:
        size_bytes = storage.nbytes()
        if size_bytes == 0:  # nothing is allocated
            if key not in self._emptied:
                self._remember_empty(storage, self._new_record(0, operator))
            return
        record = self._new_record(size_bytes, operator)
        if record.module is None and record.phase is Phase.FORWARD:
            record.from_inputs = self._made_from_inputs(inputs)
        elif record.phase is Phase.BACKWARD:
            node = _node()
            record.node = node._sequence_nr() if node is not None else None
        self.ledger.born(key, record, self.streams.current())
        self._at_end(storage, key, self.ledger.died)

    def _new_record(self, size_bytes: int, operator: str, role: str | None = None) -> Record:
        record = self._placed(Record(size_bytes, operator, self.phase, role=role))
        if self.on_request is not None:
            self.on_request(record)
        return record

    def _placed(self, record: Record) -> Record:
        record.file, record.line = self.source.find(4)
        record.module = self.modules.path
        record.root_call = self.modules.root_call
        return record

    def _at_end(self, storage: Any, key: int, call: Callable[[int], object]) -> None:
        """Call ``call`` with the key of ``storage`` once it is gone."""
        deaths = self._deaths

        def gone(reference: object) -> None:
            if deaths.get(key) is reference:
                del deaths[key]
                call(key)

        deaths[key] = weakref.ref(storage, gone)

    def _remember_empty(self, storage: Any, record: Record) -> None:
        emptied = self._emptied
        emptied[storage._cdata] = record
        self._at_end(storage, storage._cdata, lambda key: emptied.pop(key, None))

    def _inherit(self, old: Record, key: int) -> None:
        record = self.ledger.live.get(key)
        if record is not None:
            record.role, record.name, record.collective = old.role, old.name, old.collective

    def _note_update(self) -> None:
        """Mark storages made since the backward, except inputs, as temporaries of the optimizer's step."""
        if self._backward_end is None:
            return
        for record in reversed(self.ledger.live.values()):  # the newest first
            if record.birth <= self._backward_end:
                break
            record.for_update = not record.from_inputs
        self._backward_end = None

    def _made_from_inputs(self, inputs: Iterable[object]) -> bool:
        for value in inputs:
            if isinstance(value, (list, tuple)):
                if not self._made_from_inputs(value):
                    return False
            elif isinstance(value, torch.Tensor) and self._on_device(value):
                record = self.record_of(value)
                if record is None or not record.from_inputs or value.requires_grad:
                    return False
        return True

    def _root_called(self, module: nn.Module) -> None:
        self._backward_end = None
        self.modules.name_children(module)
        self.roles.see_module(module)
