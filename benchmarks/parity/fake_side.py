"""The device of fake tensors as a piece of work meets it: its allocator's model, and what is noted."""

from __future__ import annotations

from typing import Any

from pytest_membudget.allocator import CachingAllocator
from pytest_membudget.allocator.blocks import Block
from pytest_membudget.devices.fake.device import VirtualDevice
from pytest_membudget.hardware.gpus import Gpu

from .recording import Event


class FakeSide:
    """The device of fake tensors, in a process of its own."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._device = VirtualDevice(gpu)

    def install(self) -> None:
        """Tensors of this process are fake from here on."""
        self._device.install()

    def begin(self) -> None:
        """In a child: record from here on."""
        self._device.begin(self._gpu, limited=False)
        self._allocator = _Logged.taking_over(self._device.ledger.allocator)

    def allocations(self) -> int:
        """How many requests the allocator has served since ``begin``."""
        return self._allocator.allocations

    def events(self) -> list[Event]:
        """What the allocator did since ``begin``."""
        return self._allocator.events

    def peaks(self) -> dict[str, int]:
        """The allocator's peaks, in bytes."""
        model = self._allocator
        return {
            "requested": model.peak_requested_bytes,
            "allocated": model.peak_allocated_bytes,
            "reserved": model.peak_reserved_bytes,
        }

    def assumed(self) -> list[str]:
        """What was read or sized without being known."""
        mode = self._device._mode
        sizes = [one.text for one in mode.shapes.caveats("/")]
        return [*(f"read of {read.dtype}" for read in mode.reads.assumed), *sizes]

    def not_modelled(self) -> list[str]:
        """What ran and may have taken memory that is not counted."""
        device = self._device
        found = [*device._mode.charges.unmodelled.caveats("/"), *device._notes]
        return [one.text for one in found if one.kind.is_missing]


class _Logged(CachingAllocator):
    """The model with a list of what it did."""

    allocations: int
    events: list[Event]

    @staticmethod
    def taking_over(allocator: CachingAllocator) -> _Logged:
        """``allocator`` itself, with a list from here on."""
        logged: Any = allocator
        logged.__class__ = _Logged
        logged.allocations, logged.events = 0, []
        return logged  # type: ignore[no-any-return]

    def allocate(self, size_bytes: int, stream: int = 0) -> Block:
        block = super().allocate(size_bytes, stream)
        if block.size_bytes:
            self.allocations += 1
            self.events.append(Event("alloc", block.address, size_bytes))
        return block

    def _merge_in(self, block: Block) -> None:
        self.events.append(Event("free_completed", block.address, block.requested_bytes))
        super()._merge_in(block)
