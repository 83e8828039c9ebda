"""What holds of the allocator's model after every request, whatever the requests: found by hypothesis."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from pytest_membudget.allocator.blocks import ACTIVE_ALLOCATED, INACTIVE
from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.allocator.settings import AllocatorSettings

MIB = 2**20
SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:40",
    "roundup_power2_divisions:4",
    "expandable_segments:True,roundup_power2_divisions:[1:2,8:4,>:8]",
)
#: around every boundary of the rules: 512 B, 1 MiB, 2, 10, 20 and 40 MiB
SIZES = st.one_of(
    st.integers(0, 4096),
    st.sampled_from([1, 2, 10, 20, 40]).flatmap(lambda mib: st.integers(mib * MIB - 600, mib * MIB + 600)),
    st.integers(1, 120 * MIB),
)
STREAMS = st.sampled_from([0, 0, 0, 7])


class Requests(RuleBasedStateMachine):
    """Requests in any order; ``held`` are the blocks that a program would hold."""

    blocks = Bundle("blocks")

    @initialize(text=st.sampled_from(SETTINGS))
    def begin(self, text):
        self.model = CachingAllocator(AllocatorSettings.parse(text))
        self.held = {}

    @rule(target=blocks, size=SIZES, stream=STREAMS)
    def allocate(self, size, stream):
        block = self.model.allocate(size, stream)
        assert block.size_bytes >= size
        if size:
            self.held[id(block)] = (block, size)
        return block

    @rule(block=consumes(blocks))
    def free(self, block):
        if id(block) not in self.held:
            return
        del self.held[id(block)]
        self.model.free(block)

    @rule()
    def empty_cache(self):
        self.model.empty_cache()

    @invariant()
    def what_is_held_does_not_overlap(self):
        ranges = sorted((block.address, block.size_bytes) for block, _ in self.held.values())
        assert all(address + size <= following for (address, size), (following, _) in pairwise(ranges))

    @invariant()
    def live_bytes_add_up(self):
        model = self.model
        assert model.allocated_bytes == sum(block.size_bytes for block, _ in self.held.values())
        assert all(block.requested_bytes == size for block, size in self.held.values())
        assert model.requested_bytes == sum(size for _, size in self.held.values())

    @invariant()
    def each_total_holds_the_next(self):
        model = self.model
        assert model.reserved_bytes >= model.allocated_bytes >= model.requested_bytes
        assert model.peak_reserved_bytes >= model.peak_allocated_bytes
        assert model.peak_allocated_bytes >= model.allocated_bytes

    @invariant()
    def splitting_and_merging_conserve_memory(self):
        segments = self.model.segments()
        assert sum(segment.size_bytes for segment in segments) == self.model.reserved_bytes
        for segment in segments:
            assert sum(block.size_bytes for block in segment.blocks) == segment.size_bytes
            ends = [block.address + block.size_bytes for block in segment.blocks]
            assert ends[:-1] == [block.address for block in segment.blocks[1:]]
            free = [block.state == INACTIVE for block in segment.blocks]
            assert not any(left and right for left, right in pairwise(free))

    @invariant()
    def every_block_in_use_is_somebodys(self):
        segments = self.model.segments()
        in_use = {
            block.address
            for segment in segments
            for block in segment.blocks
            if block.state == ACTIVE_ALLOCATED
        }
        assert in_use == {block.address for block, _ in self.held.values()}

    def teardown(self):
        for block, _ in self.held.values():
            self.model.free(block)
        self.model.empty_cache()
        assert (self.model.reserved_bytes, self.model.allocated_bytes, self.model.requested_bytes) == (
            0,
            0,
            0,
        )


TestRequests = Requests.TestCase
TestRequests.settings = hypothesis_settings(
    max_examples=300, stateful_step_count=60, deadline=None, derandomize=True, database=None
)


@pytest.mark.parametrize("text", SETTINGS)
def test_a_million_events_take_less_than_ten_seconds(text):
    """200,000 events a setting in 2 s: some 30 times what it takes on a desktop."""
    chance = random.Random(4)
    model = CachingAllocator(AllocatorSettings.parse(text))
    sizes = [int(2 ** chance.uniform(4, 27)) for _ in range(1000)]
    held = [model.allocate(size) for size in sizes]
    began = time.process_time()
    for number in range(100_000):
        place = number * 7919 % 1000
        model.free(held[place])
        held[place] = model.allocate(sizes[number % 1000])
    taken = time.process_time() - began

    assert taken < 2
    assert model.allocated_bytes > 0
