"""Host memory during a run: each block's birth and death, with its place and its role."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch import nn

from ....memory_report import MemoryReport
from ....tracking.ledger import HostLedger
from ....tracking.phases import running_phase
from ....tracking.record import Phase, Record
from ....tracking.roles.role_book import NO_GRAPH_TASK, RoleBook, noting_now
from ....tracking.roles.tensor_parts import owns_storage
from ....tracking.running_code.modules import ModuleStack
from ....tracking.running_code.source import users_source
from ....tracking.summary import host_report
from ...real.compiled_calls import COMPILED_CALLS, Follower
from .fills import LARGE_BYTES
from .memory import HostEvent, HostMemory, What, storage_address

#: From here on a block's own line and module are looked up; smaller ones have those of the next such block.
_PLACED_BYTES: Final = 1 << 16
#: Frames from a birth to the code that asked for it.
_DEPTH: Final = 2
#: What asked, in a report's words.
_ASKED: Final = {What.PAGEABLE: "CPU allocator", What.PINNED: "pinned memory"}


class HostRun:
    """Follows the host tensors of this process from ``install`` on.

    Pinned memory counts as long as PyTorch's caching host allocator holds it, in its powers of two, whether a
    tensor lies in it or not: it is taken from the machine.
    """

    def __init__(self, memory: HostMemory, on_large: Callable[[], None] = lambda: None) -> None:
        """``on_large``: called at each birth of a block of ``LARGE_BYTES`` or more."""
        self._memory = memory
        self._on_large = on_large
        self._turn = threading.RLock()
        self._source = users_source()
        #: the blocks, by address
        self.ledger = HostLedger()
        self._modules = ModuleStack(self._root_called, self._root_ended)
        self._roles = RoleBook(noting_now(self._record_of), lambda tensor: tensor.is_cpu)
        self._follower = Follower(self._paused, lambda values: None)
        self._phase = Phase.FORWARD
        #: the backward that ran last
        self._task = NO_GRAPH_TASK

    def install(self) -> None:
        """Start to follow."""
        self._modules.install()
        self._roles.install()
        COMPILED_CALLS.add(self._follower)
        self._memory.record(self._born, _PLACED_BYTES)
        # a child of fork would wait for a thread that it has not
        os.register_at_fork(
            before=self._turn.acquire, after_in_parent=self._turn.release, after_in_child=self._turn.release
        )
        atexit.register(self._memory.stop)  # Python cannot be called while it ends

    def body_ended(self) -> None:
        """The test's body has ended, and its fixtures have not: gradients are known while parameters live."""
        self._roles.see_gradients()

    def report(self, *, root: str, rank: int = 0) -> MemoryReport | None:
        """What was held at the peak; None if that is not worth a report."""
        self._roles.see_gradients()
        self._take_in()
        return host_report(self.ledger, root=root, rank=rank)

    @contextlib.contextmanager
    def _paused(self, module: nn.Module | None, optimizers: list[torch.optim.Optimizer]) -> Iterator[None]:
        with self._modules.paused(module), self._roles.paused(optimizers):
            yield

    def _root_called(self, module: nn.Module) -> None:
        self._modules.name_children(module)
        self._roles.see_module(module)

    def _root_ended(self, number: int) -> None:
        self._take_in()  # what has ended before
        self.ledger.end_root_call(number)

    def _follow_phase(self) -> None:
        """Find out what is running; a backward that begins uses what the forward has saved."""
        task, phase = torch._C._current_graph_task_id(), running_phase(self._roles, self._modules)
        if phase is Phase.FORWARD:
            if self._phase in (Phase.BACKWARD, Phase.RECOMPUTE):
                self._roles.see_gradients()
        elif phase is not Phase.OPTIMIZER:
            is_new = self._phase is Phase.FORWARD or task != self._task
            if is_new or (self._phase is Phase.RECOMPUTE and phase is Phase.BACKWARD):
                self.ledger.mark()
            self._task = task
        self._phase = phase

    def _born(self, address: int) -> None:
        """A large block was born: what the step is doing and the user's line are those of this moment."""
        with self._turn:
            events = self._memory.take_events()
            own = _last_birth(events, address)
            self._play(events[:own])
            self._follow_phase()
            self._play(events[own:])
            record = self.ledger.live.get(address)
            if record is not None:
                self._place(record)
                if record.requested_bytes >= LARGE_BYTES:
                    self._on_large()
                with contextlib.suppress(ValueError):  # a thread of autograd's, where no Python runs
                    record.file, record.line = self._source.find(_DEPTH)

    def _record_of(self, tensor: torch.Tensor) -> Record | None:
        if not tensor.is_cpu or not owns_storage(tensor):
            return None
        self._take_in()
        record = self.ledger.live.get(storage_address(tensor))
        if record is not None and record.operator == _ASKED[What.PINNED]:  # a power of two was allocated
            record.requested_bytes = min(record.requested_bytes, tensor.untyped_storage().nbytes())
        return record

    def _take_in(self) -> None:
        with self._turn:
            self._play(self._memory.take_events())

    def _play(self, events: list[HostEvent]) -> None:
        ledger = self.ledger
        for event in events:
            if event.address in ledger.live:
                ledger.died(event.address)
            if event.is_birth:
                record = Record(event.size_bytes, _ASKED[event.what], self._phase)
                self._place(record)
                ledger.born(event.address, record)

    def _place(self, record: Record) -> None:
        record.phase = self._phase
        record.module, record.root_call = self._modules.path, self._modules.root_call


def _last_birth(events: list[HostEvent], address: int) -> int:
    """The number of the last birth at ``address``; behind all events if another thread has taken it."""
    births = (number for number, event in enumerate(events) if event.is_birth and event.address == address)
    return max(births, default=len(events))
