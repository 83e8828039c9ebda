"""The device of fake tensors as a piece of work meets it: its allocator's model, and what is noted."""

from __future__ import annotations

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
        self._events: list[Event] = []
        self._device.ledger.allocator.listen(self._note)

    def allocations(self) -> int:
        """How many requests the allocator has served since ``begin``."""
        return sum(event.action == "alloc" for event in self._events)

    def events(self) -> list[Event]:
        """What the allocator did since ``begin``."""
        return self._events

    def peaks(self) -> dict[str, int]:
        """The allocator's peaks, in bytes."""
        model = self._device.ledger.allocator
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

    def _note(self, action: str, address: int, size_bytes: int, stream: int) -> None:
        if action in ("alloc", "free_completed"):
            self._events.append(Event(action, address, size_bytes))
