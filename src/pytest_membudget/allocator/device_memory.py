"""The device memory that the allocator holds, and when there is no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..errors import MembudgetError
from ..units import gib_text

SegmentAddress = Callable[[int], int]
"""Size in bytes of a new segment -> the address that the device gives it."""

Listener = Callable[[str, int, int, int], None]
"""Called with an event's action (``alloc``, ``segment_alloc``, ...), address, size in bytes and stream."""

#: Only the order of addresses matters. PyTorch's viewer of snapshots (pytorch.org/memory_viz) holds them in
#: JavaScript's numbers, which are exact below 2**53.
_MIDDLE_ADDRESS: Final = 2**52

#: From this torch on, of free blocks of one size the oldest segment's is taken, whatever the addresses are
#: (c10/cuda/CUDACachingAllocator.cpp; pytorch/pytorch#178362, and #183591 for each segment);
#: before, the one with the lowest address.
_OLDEST_SEGMENT_FIRST: Final = (2, 12)


def segment_addresses(torch_release: tuple[int, int]) -> SegmentAddress:
    """Addresses that have a torch of this release choose among free blocks of one size as it does.

    They rise where the oldest segment is chosen, and fall where the lowest is: in recorded histories CUDA
    on Linux mostly puts the next large segment below the one before.
    """
    step = 1 if torch_release >= _OLDEST_SEGMENT_FIRST else -1
    end = _MIDDLE_ADDRESS

    def next_address(size_bytes: int) -> int:
        nonlocal end
        end += step * size_bytes
        return end - size_bytes if step > 0 else end

    return next_address


@dataclass(eq=False)
class OutOfMemory(MembudgetError):  # noqa: N818 (its public name, as PyTorch says it)
    """The device cannot serve a request, as ``torch.cuda.OutOfMemoryError``. All figures are bytes.

    ``capacity_bytes`` is the limit that was hit, None if the request alone is beyond any device.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    capacity_bytes: int | None

    def __str__(self) -> str:
        limit = "" if self.capacity_bytes is None else f" of {gib_text(self.capacity_bytes)}"
        return (
            f"out of memory: {gib_text(self.requested_bytes)} requested; {gib_text(self.reserved_bytes)}"
            f"{limit} is reserved, {gib_text(self.allocated_bytes)} of it allocated"
        )


class DeviceMemory:
    """The bytes reserved, their peak, and the two limits on them.

    ``capacity_bytes`` is all that the device can give this process (None: it never runs out),
    ``fraction`` the part that the process allows itself; 1 is no limit (``setMemoryFraction`` in
    ``c10/cuda/CUDACachingAllocator.cpp``, 2.11).
    """

    def __init__(
        self, capacity_bytes: int | None, fraction: float, segment_address: SegmentAddress | None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.fraction = fraction
        self.reserved_bytes = 0
        self.peak_reserved_bytes = 0
        #: times that memory was allocated (``cudaMalloc``, or pages mapped) and freed
        self.num_device_alloc = self.num_device_free = 0
        #: address space for so many bytes, with no memory behind it yet
        self.new_address = segment_address or segment_addresses(_OLDEST_SEGMENT_FIRST)
        self.listener: Listener | None = None

    @property
    def allowed_bytes(self) -> int | None:
        """What the process allows itself; None if that is all."""
        if self.capacity_bytes is None or self.fraction >= 1:
            return None
        return int(self.fraction * self.capacity_bytes)

    @property
    def limit_bytes(self) -> int | None:
        """The tighter of the two limits."""
        allowed = self.allowed_bytes
        return self.capacity_bytes if allowed is None else allowed

    def allows(self, size_bytes: int) -> bool:
        """Whether the process allows itself ``size_bytes`` more."""
        allowed = self.allowed_bytes
        return allowed is None or self.reserved_bytes + size_bytes <= allowed

    def reserve(self, size_bytes: int) -> bool:
        """Reserve ``size_bytes``; False, and nothing changes, if the device has no such memory."""
        reserved = self.reserved_bytes + size_bytes
        if self.capacity_bytes is not None and reserved > self.capacity_bytes:
            return False
        self.reserved_bytes = reserved
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, reserved)
        self.num_device_alloc += 1
        return True

    def release(self, size_bytes: int) -> None:
        """Return reserved memory to the device."""
        self.reserved_bytes -= size_bytes
        self.num_device_free += 1

    def notify(self, action: str, address: int, size_bytes: int, stream: int) -> None:
        """Pass an event of the history to the listener."""
        if self.listener is not None:
            self.listener(action, address, size_bytes, stream)
