"""The caching allocator of one device: best fit, splitting, merging, counters, and a full device.

Follows ``DeviceCachingAllocator`` in ``c10/cuda/CUDACachingAllocator.cpp`` (2.11: ``malloc``,
``get_free_block``, ``should_split``, ``alloc_found_block``, ``free``, ``free_block``). Left out: private
pools (CUDA graphs, ``torch.cuda.MemPool``), and time: another stream's use of a freed block has ended by
the next request.
"""

from __future__ import annotations

from .blocks import Block, FreeBlocks, SegmentState, split_off
from .device_memory import DeviceMemory, Listener, OutOfMemory, SegmentAddress
from .expandable import fit_with_room_to_grow
from .rounding import MAX_REQUEST_BYTES, SMALL_BYTES, block_bytes
from .segments import Segments
from .settings import DEFAULT_SETTINGS, AllocatorSettings


class CachingAllocator:
    """One device's allocator. All counters are those of ``torch.cuda.memory_stats``; sizes in bytes.

    ``allocated_bytes``: blocks in use, rounding and unsplit rests included; ``active_bytes``: those and
    the freed ones that another stream may still use; ``requested_bytes``: what was requested for the active
    ones; ``reserved_bytes``: what is held of the device. Each has a ``peak_``.
    """

    def __init__(
        self,
        settings: AllocatorSettings = DEFAULT_SETTINGS,
        capacity_bytes: int | None = None,
        segment_address: SegmentAddress | None = None,
    ) -> None:
        """``capacity_bytes``: what the device can give (None: never out of memory).

        ``segment_address``: size of a new segment -> its address; by default each new one lies above all
        earlier ones. Of free blocks of the same size the lowest is taken: by default the oldest segment's.
        """
        self.settings = settings
        self.device = DeviceMemory(capacity_bytes, settings.per_process_memory_fraction, segment_address)
        self._segments = Segments(self.device, settings)
        self._divisions = settings.roundup_power2_divisions
        self._choose_search()
        # blocks of this size and more are never split; with expandable segments every block may be
        limit = None if settings.expandable_segments else settings.max_split_size_bytes
        self._split_below_bytes = MAX_REQUEST_BYTES if limit is None else limit
        self._listener: Listener | None = None
        self._held: dict[Block, None] = {}  # freed, but used by another stream
        self.allocated_bytes = self.peak_allocated_bytes = 0
        self.active_bytes = self.peak_active_bytes = 0
        self.requested_bytes = self.peak_requested_bytes = 0
        self.num_allocations = 0
        self.num_active_blocks = 0
        self.num_alloc_retries = 0
        self.num_ooms = 0
        self.num_sync_all_streams = 0

    @property
    def reserved_bytes(self) -> int:
        """What is held of the device."""
        return self.device.reserved_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that was held of the device."""
        return self.device.peak_reserved_bytes

    @property
    def num_segments(self) -> int:
        """Segments held; expandable ones are not counted, as in PyTorch."""
        return len(self._segments.heads)

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` at each event from here on, as PyTorch's ``record_trace`` is called."""
        self._listener = self.device.listener = listener

    def allocate(self, size_bytes: int, stream: int = 0) -> Block:
        """A block for ``size_bytes``; ``OutOfMemory`` if the device cannot serve it.

        Nothing is allocated for 0 bytes: the block has size 0. ``ValueError`` for a negative size.
        """
        if self._held:
            self.process_events()
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
            block = self._new_block(home, rounded, size_bytes)
        rest_bytes = block.size_bytes - rounded
        if rest_bytes >= pool.min_rest_bytes and rounded < self._split_below_bytes:
            home.add(split_off(block, rounded))
        block.requested_bytes = size_bytes
        self._count_in(block)
        if self._listener is not None:
            self._listener("alloc", block.address, size_bytes, stream)
        return block

    def free(self, block: Block) -> None:
        """Free a block; ``ValueError`` if it was freed before.

        It stays active, and its memory in use, while other streams are recorded for it: up to the next
        request or ``process_events``.
        """
        if not block.allocated:
            if block.size_bytes:
                raise ValueError(f"{block} is not allocated: was it freed before?")
            return
        if self._listener is not None:
            self._listener("free_requested", block.address, block.requested_bytes, block.stream)
        block.allocated = False
        self.allocated_bytes -= block.size_bytes
        self.num_allocations -= 1
        if block.stream_uses:
            block.pending = True
            self._held[block] = None
        else:
            self._merge_in(block)

    def complete_free(self, block: Block) -> None:
        """The last stream is done with a block that was freed."""
        block.pending = False
        block.stream_uses = None
        self._held.pop(block, None)
        self._merge_in(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Another stream uses the block; the stream it was allocated for changes nothing."""
        if stream != block.stream and block.size_bytes:
            if block.stream_uses is None:
                block.stream_uses = set()
            block.stream_uses.add(stream)

    def process_events(self) -> None:
        """End every other stream's use of freed blocks, so that they can be had again."""
        for block in list(self._held):
            self.complete_free(block)

    def empty_cache(self) -> None:
        """Give back to the device what is free in whole segments, as ``torch.cuda.empty_cache``."""
        self.num_sync_all_streams += 1
        self.process_events()
        self._segments.release_cached()

    def set_capacity(self, capacity_bytes: int | None) -> None:
        """Let the device give so much from here on; None: it is never out of memory."""
        self.device.capacity_bytes = capacity_bytes
        self._choose_search()

    def set_memory_fraction(self, fraction: float) -> None:
        """Allow this part of the capacity, as ``torch.cuda.set_per_process_memory_fraction``.

        It limits nothing where the capacity is not known.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a memory fraction lies between 0 and 1: {fraction}")
        self.device.fraction = fraction
        self._choose_search()

    def reset_peaks(self) -> None:
        """Start all peaks again from what is held now, as ``torch.cuda.reset_peak_memory_stats``."""
        self.peak_allocated_bytes = self.allocated_bytes
        self.peak_active_bytes = self.active_bytes
        self.peak_requested_bytes = self.requested_bytes
        self.device.peak_reserved_bytes = self.device.reserved_bytes

    def segments(self) -> list[SegmentState]:
        """The segments and their blocks in address order, as ``torch.cuda.memory_snapshot`` has them."""
        return self._segments.states()

    def inactive_split(self) -> tuple[int, int]:
        """How many free blocks the device cannot get back, and their bytes (``inactive_split`` of the stats).

        They share a segment with others; blocks of expandable segments do not count.
        """
        pools = (self._segments.small, self._segments.large)
        sizes = [
            block.size_bytes
            for pool in pools
            for block in pool.free_blocks()
            if block.is_split and block.virtual_segment is None
        ]
        return len(sizes), sum(sizes)

    def _choose_search(self) -> None:
        settings = self.settings
        self._ages_count = settings.garbage_collection_threshold > 0 and self.device.allowed_bytes is not None
        self._is_plain = not (
            settings.expandable_segments or settings.max_split_size_bytes is not None or self._ages_count
        )

    def _take_fit(self, home: FreeBlocks, rounded_bytes: int) -> Block | None:
        """The best fit under all settings, taken out of ``home`` (``get_free_block``)."""
        if self._ages_count:
            home.pool.searches += 1
        fit = (
            fit_with_room_to_grow(home, rounded_bytes)
            if self.settings.expandable_segments
            else next(home.from_fit(rounded_bytes), None)
        )
        if fit is None or not self.settings.may_serve(fit.size_bytes, rounded_bytes):
            return None
        home.remove(fit)
        return fit

    def _new_block(self, home: FreeBlocks, rounded_bytes: int, size_bytes: int) -> Block:
        """New memory for a request that no cached block fits, in PyTorch's order of attempts."""
        segments = self._segments
        if size_bytes >= MAX_REQUEST_BYTES:
            raise self._out_of_memory(size_bytes, None)
        if self._ages_count:
            segments.collect_garbage()
        block = segments.grow(home, rounded_bytes)
        if block is None and not (
            self.settings.throw_on_cudamalloc_oom and segments.is_over_allowance(rounded_bytes)
        ):
            if segments.release_oversize(home, rounded_bytes):
                block = segments.grow(home, rounded_bytes)
            if block is None:
                self.empty_cache()
                self.num_alloc_retries += 1
                block = segments.grow(home, rounded_bytes)
        if block is None:
            capacity = self.device.capacity_bytes
            if capacity is not None:
                self.device.notify("oom", capacity - self.reserved_bytes, rounded_bytes, home.stream)
            raise self._out_of_memory(size_bytes, self.device.limit_bytes)
        return block

    def _out_of_memory(self, size_bytes: int, limit_bytes: int | None) -> OutOfMemory:
        self.num_ooms += 1
        return OutOfMemory(size_bytes, self.allocated_bytes, self.reserved_bytes, limit_bytes)

    def _count_in(self, block: Block) -> None:
        block.allocated = True
        size = block.size_bytes
        self.num_allocations += 1
        self.num_active_blocks += 1
        self.allocated_bytes += size
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.allocated_bytes
        self.active_bytes += size
        if self.active_bytes > self.peak_active_bytes:
            self.peak_active_bytes = self.active_bytes
        self.requested_bytes += block.requested_bytes
        if self.requested_bytes > self.peak_requested_bytes:
            self.peak_requested_bytes = self.requested_bytes

    def _merge_in(self, block: Block) -> None:
        """Put a block that nobody uses back among the free ones (``free_block``)."""
        if self._listener is not None:
            self._listener("free_completed", block.address, block.requested_bytes, block.stream)
        self.num_active_blocks -= 1
        self.active_bytes -= block.size_bytes
        self.requested_bytes -= block.requested_bytes
        block.requested_bytes = 0
        home = block.home
        assert home is not None
        home.add_merged(block)


def _no_block(size_bytes: int, stream: int) -> Block:
    if size_bytes < 0:
        raise ValueError(f"cannot allocate {size_bytes} bytes")
    return Block(0, 0, stream, None)
