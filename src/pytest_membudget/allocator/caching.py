"""The caching allocator of one device: best fit, splitting, merging, counters.

Follows ``DeviceCachingAllocator`` in ``c10/cuda/CUDACachingAllocator.cpp`` (2.11: ``malloc``,
``get_free_block``, ``should_split``, ``alloc_found_block``, ``free``, ``free_block``). Left out: private
pools (CUDA graphs, ``torch.cuda.MemPool``), and a device that is full: what is replayed here has run.
"""

from __future__ import annotations

from .blocks import Block, FreeBlocks, SegmentState, split_off
from .device_memory import DeviceMemory, SegmentAddress
from .expandable import fit_with_room_to_grow
from .rounding import SMALL_BYTES, block_bytes
from .segments import Segments
from .settings import DEFAULT_SETTINGS, AllocatorSettings

_NO_LIMIT_BYTES = 2**64


class CachingAllocator:
    """One device's allocator. All counters are those of ``torch.cuda.memory_stats``; sizes in bytes.

    ``allocated_bytes``: blocks in use, rounding and unsplit rests included; ``requested_bytes``: what was
    requested for them; ``reserved_bytes``: what is held of the device. Each has a ``peak_``.
    """

    def __init__(
        self, settings: AllocatorSettings = DEFAULT_SETTINGS, segment_address: SegmentAddress | None = None
    ) -> None:
        """``segment_address``: size of a new segment -> its address; by default each new one lies above all
        earlier ones. Of free blocks of the same size the lowest is taken: by default the oldest segment's.
        """
        self.settings = settings
        self.device = DeviceMemory(segment_address)
        self._segments = Segments(self.device, settings)
        self._divisions = settings.roundup_power2_divisions
        limit = settings.max_split_size_bytes
        self._is_plain = not settings.expandable_segments and limit is None
        # blocks of this size and more are never split; with expandable segments every block may be
        self._split_below_bytes = _NO_LIMIT_BYTES if settings.expandable_segments or limit is None else limit
        self.allocated_bytes = self.peak_allocated_bytes = 0
        self.requested_bytes = self.peak_requested_bytes = 0

    @property
    def reserved_bytes(self) -> int:
        """What is held of the device."""
        return self.device.reserved_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that was held of the device."""
        return self.device.peak_reserved_bytes

    def allocate(self, size_bytes: int, stream: int = 0) -> Block:
        """A block for ``size_bytes``. Nothing is allocated for 0 bytes: the block has size 0.

        ``ValueError`` for a negative size.
        """
        if size_bytes <= 0:
            return _no_block(size_bytes, stream)
        # the calls that the usual request can do without are left out: this runs for every tensor
        rounded = block_bytes(size_bytes, self._divisions) if self._divisions else (size_bytes + 511) & -512
        pool = self._segments.small if rounded <= SMALL_BYTES else self._segments.large
        home = pool.by_stream.get(stream)
        if home is None:
            home = pool.of_stream(stream)
        block = home.take_fit(rounded) if self._is_plain else self._take_fit(home, rounded)
        if block is None:
            block = self._segments.grow(home, rounded)
        rest_bytes = block.size_bytes - rounded
        if rest_bytes >= pool.min_rest_bytes and rounded < self._split_below_bytes:
            home.add(split_off(block, rounded))
        block.requested_bytes = size_bytes
        self._count_in(block)
        return block

    def free(self, block: Block) -> None:
        """Free a block, which no stream uses any more; ``ValueError`` if it was freed before."""
        if not block.allocated:
            if block.size_bytes:
                raise ValueError(f"{block} is not allocated: was it freed before?")
            return
        block.allocated = False
        self.allocated_bytes -= block.size_bytes
        self.requested_bytes -= block.requested_bytes
        block.requested_bytes = 0
        assert block.home is not None
        block.home.add_merged(block)

    def empty_cache(self) -> None:
        """Give back to the device what is free in whole segments, as ``torch.cuda.empty_cache``."""
        self._segments.release_cached()

    def segments(self) -> list[SegmentState]:
        """The segments and their blocks in address order, as ``torch.cuda.memory_snapshot`` has them."""
        return self._segments.states()

    def _take_fit(self, home: FreeBlocks, rounded_bytes: int) -> Block | None:
        """The best fit under all settings, taken out of ``home`` (``get_free_block``)."""
        fit = (
            fit_with_room_to_grow(home, rounded_bytes)
            if self.settings.expandable_segments
            else next(home.from_fit(rounded_bytes), None)
        )
        if fit is None or not self.settings.may_serve(fit.size_bytes, rounded_bytes):
            return None
        home.remove(fit)
        return fit

    def _count_in(self, block: Block) -> None:
        block.allocated = True
        self.allocated_bytes += block.size_bytes
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.allocated_bytes
        self.requested_bytes += block.requested_bytes
        if self.requested_bytes > self.peak_requested_bytes:
            self.peak_requested_bytes = self.requested_bytes


def _no_block(size_bytes: int, stream: int) -> Block:
    if size_bytes < 0:
        raise ValueError(f"cannot allocate {size_bytes} bytes")
    return Block(0, 0, stream, None)
