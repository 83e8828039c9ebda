"""Host memory of a rank: tensors on cpu, pageable and pinned, by the same components."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .ledger import Ledger


class HostBlock:
    """The host memory of one storage."""

    __slots__ = ("is_pinned", "requested_bytes", "size_bytes")

    def __init__(self, requested_bytes: int, size_bytes: int, *, is_pinned: bool) -> None:
        self.requested_bytes = requested_bytes
        self.size_bytes = size_bytes
        self.is_pinned = is_pinned


class HostAllocator:
    """Pageable memory as requested; pinned memory in powers of two, cached when it is freed.

    ``CachingHostAllocatorImpl::allocate`` and ``free`` (aten/src/ATen/core/CachingHostAllocator.h, 2.13).
    Pageable memory is allocated and freed by malloc, whose own cache is not modelled.
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.requested_bytes = 0
        self.reserved_bytes = 0
        #: whether the next blocks are pinned
        self.pins = False
        self._kept: Counter[int] = Counter()

    @property
    def active_bytes(self) -> int:
        """The same as allocated: nothing waits for a stream."""
        return self.allocated_bytes

    def allocate(self, size_bytes: int, stream: int = 0) -> HostBlock:
        """A block for ``size_bytes``."""
        size = 1 << (size_bytes - 1).bit_length() if self.pins else size_bytes
        if self.pins and self._kept[size]:
            self._kept[size] -= 1
        else:
            self.reserved_bytes += size
        self.allocated_bytes += size
        self.requested_bytes += size_bytes
        return HostBlock(size_bytes, size, is_pinned=self.pins)

    def free(self, block: HostBlock) -> None:
        """Free a block."""
        self.allocated_bytes -= block.size_bytes
        self.requested_bytes -= block.requested_bytes
        if block.is_pinned:
            self._kept[block.size_bytes] += 1
        else:
            self.reserved_bytes -= block.size_bytes


class HostLedger(Ledger):
    """The ledger of host storages, with the clock of the device's."""

    allocator: Any

    def __init__(self, device: Ledger) -> None:
        super().__init__(HostAllocator(), device.clock)  # type: ignore[arg-type] # as far as a ledger uses it

    def pinned(self, key: int) -> None:
        """Record that the storage under ``key`` has pinned memory."""
        record = self.live.get(key)
        if record is None or record.block.is_pinned:
            return
        self.allocator.free(record.block)
        del self.live[key]
        birth = record.birth
        self.allocator.pins = True
        self.born(key, record)
        self.allocator.pins = False
        record.birth = birth  # the same storage: without rounding, the peak keeps its time
