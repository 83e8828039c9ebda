"""Host memory during a run: each block's birth and death, with its place and its role."""

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from ....memory_report import MemoryReport
from ....tracking.ledger import HostLedger
from ....tracking.record import Record
from ....tracking.roles.tensor_parts import owns_storage
from ....tracking.running_code.source import users_source
from ....tracking.summary import host_report
from ...real.observer import RunObserver
from ..values.following import Following
from .memory import HostEvent, What, storage_address

#: From here on a block's own line and module are looked up; smaller ones have those of the one before.
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

    def __init__(self, following: Following, observer: RunObserver) -> None:
        self._memory = following.host
        following.see_host = self.see
        self._turn = threading.RLock()
        self._source = users_source()
        #: the blocks, by address
        self.ledger = HostLedger()
        self._state_now = observer.state
        self._state = observer.state()
        observer.host_note = self._note

    def install(self) -> None:
        """Start to follow."""
        self._memory.record(self._born, _PLACED_BYTES)
        # a child of fork would wait for a thread that it has not
        os.register_at_fork(
            before=self._turn.acquire, after_in_parent=self._turn.release, after_in_child=self._turn.release
        )
        atexit.register(self._memory.stop)  # Python cannot be called while it ends

    def report(self, *, root: str, rank: int = 0) -> MemoryReport | None:
        """What was held at the peak; None if that is not worth a report."""
        self._take_in()
        return host_report(self.ledger, root=root, rank=rank)

    def _note(self, write: Callable[..., None], tensors: Sequence[torch.Tensor], *args: object) -> None:
        """A ``Note`` of ``RoleBook``; without tensors, of the ledger."""
        self._take_in()  # what has ended before
        if not tensors:
            write(self.ledger, *args)
            return
        self.see(tensors[0])
        records = [self._record_of(tensor) for tensor in tensors]
        if records[0] is not None:
            write(*records, *args)

    def _born(self, address: int) -> None:
        """A large block was born: what the step is doing and the user's line are those of this moment."""
        with self._turn:
            events = self._memory.take_events()
            own = _last_birth(events, address)
            self._play(events[:own])
            self._state = self._state_now()
            self._play(events[own:])
            record = self.ledger.live.get(address)
            if record is not None:
                with contextlib.suppress(ValueError):  # a thread of autograd's, where no Python runs
                    record.file, record.line = self._source.find(_DEPTH)
                if record.file is None and self._state.line is not None:
                    record.file, record.line = self._state.line

    def see(self, tensor: Any) -> None:
        """A host tensor is used: what it takes of pinned memory, of which a power of two was allocated."""
        record = self._record_of(tensor) if isinstance(tensor, torch.Tensor) else None
        if record is not None and record.operator == _ASKED[What.PINNED]:
            record.requested_bytes = min(record.requested_bytes, tensor.untyped_storage().nbytes())

    def _record_of(self, tensor: torch.Tensor) -> Record | None:
        if not tensor.is_cpu or not owns_storage(tensor):
            return None
        return self.ledger.live.get(storage_address(tensor))

    def _take_in(self) -> None:
        with self._turn:
            self._play(self._memory.take_events())

    def _play(self, events: list[HostEvent]) -> None:
        ledger = self.ledger
        for event in events:
            if event.address in ledger.live:
                ledger.died(event.address)
            if event.is_birth:
                state = self._state
                record = Record(event.size_bytes, _ASKED[event.what], state.phase)
                record.module, record.root_call = state.module, state.root_call
                ledger.born(event.address, record)


def _last_birth(events: list[HostEvent], address: int) -> int:
    """The number of the last birth at ``address``; behind all events if another thread has taken it."""
    births = (number for number, event in enumerate(events) if event.is_birth and event.address == address)
    return max(births, default=len(events))
