"""The device memory that the allocator holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SegmentAddress = Callable[[int], int]
"""Size in bytes of a new segment -> the address that the device gives it."""

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


class DeviceMemory:
    """The bytes that are reserved, and their peak."""

    def __init__(self, segment_address: SegmentAddress | None) -> None:
        self.reserved_bytes = 0
        self.peak_reserved_bytes = 0
        #: address space for so many bytes, with no memory behind it yet
        self.new_address = segment_address or segment_addresses(_OLDEST_SEGMENT_FIRST)

    def reserve(self, size_bytes: int) -> None:
        """Take memory of the device."""
        self.reserved_bytes += size_bytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)

    def release(self, size_bytes: int) -> None:
        """Return reserved memory to the device."""
        self.reserved_bytes -= size_bytes
