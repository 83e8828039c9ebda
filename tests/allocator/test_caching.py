"""The allocator's rules, one by one; every figure is worked out by hand from the rule it shows."""

import random
from itertools import pairwise

import pytest

from pytest_membudget.allocator.blocks import INACTIVE
from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.allocator.device_memory import segment_addresses
from pytest_membudget.allocator.settings import AllocatorSettings
from pytest_membudget.units import KIB, MIB
from tests.allocator.history_replay import ReplayedAllocator


def upwards():
    """Addresses for new segments that rise from 0, far apart."""
    return iter(range(0, 2**40, 2**30)).__next__


def allocator(text=""):
    rising = upwards()
    return CachingAllocator(AllocatorSettings.parse(text), segment_address=lambda size: rising())


# --- rounding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "block"),
    [(1, 512), (512, 512), (513, 1024), (1 * MIB - 1, 1 * MIB), (3 * MIB + 1, 3 * MIB + 512)],
)
def test_a_request_is_rounded_up_to_512_bytes(requested, block):
    model = allocator()

    assert model.allocate(requested).size_bytes == block
    assert (model.requested_bytes, model.allocated_bytes) == (requested, block)


@pytest.mark.parametrize(
    ("requested", "block"),
    [
        (2048, 2048),  # not over 4 x 512 bytes: plain rounding
        (2049, 2560),  # between 2 KiB and 4 KiB in steps of 512
        (5 * MIB, 5 * MIB),  # between 4 and 8 MiB in steps of 1 MiB
        (5 * MIB + 1, 6 * MIB),
        (8 * MIB, 8 * MIB),
        (300, 512),
    ],
)
def test_four_divisions_round_up_to_quarters_of_a_power_of_two(requested, block):
    assert allocator("roundup_power2_divisions:4").allocate(requested).size_bytes == block


def test_each_power_of_two_can_have_divisions_of_its_own():
    model = allocator("roundup_power2_divisions:[16:8,32:2,>:0]")

    assert (
        model.allocate(9 * MIB + 1).size_bytes == 10 * MIB
    )  # below 16 MiB as from 16: 8 to 16 in steps of 1
    assert model.allocate(33 * MIB).size_bytes == 48 * MIB  # 32 to 64 in steps of 16
    assert model.allocate(66 * MIB + 1).size_bytes == 66 * MIB + 512  # off


# --- segments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "segment"),
    [
        (1, 2 * MIB),
        (1 * MIB, 2 * MIB),
        (1 * MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (100 * MIB + 5, 102 * MIB),
    ],
)
def test_a_segment_fits_the_size_class_of_the_request(requested, segment):
    model = allocator()
    model.allocate(requested)

    assert model.reserved_bytes == segment


def test_large_segment_size_replaces_the_20_mib():
    model = allocator("large_segment_size_mb:64")
    model.allocate(5 * MIB)

    assert model.reserved_bytes == 64 * MIB


def test_small_requests_share_a_segment():
    model = allocator()
    for _ in range(4):
        model.allocate(512 * KIB)

    assert (len(model.segments()), model.reserved_bytes) == (1, 2 * MIB)


def test_the_pools_do_not_share_memory():
    model = allocator()
    model.free(model.allocate(5 * MIB))
    model.allocate(1 * MIB)

    assert model.reserved_bytes == 22 * MIB


def test_streams_do_not_share_memory():
    model = allocator()
    model.free(model.allocate(5 * MIB, stream=1))
    model.allocate(5 * MIB, stream=2)

    assert model.reserved_bytes == 40 * MIB


def test_by_default_new_segments_do_not_overlap():
    model = CachingAllocator()
    for size in (1, 5 * MIB, 30 * MIB, 2 * MIB):
        model.allocate(size, stream=size)
    segments = model.segments()

    assert len(segments) == 4
    for lower, upper in pairwise(segments):
        assert lower.address + lower.size_bytes <= upper.address


# --- splitting, fitting, merging ------------------------------------------------------------------------


def test_a_rest_of_512_bytes_is_split_off_in_the_small_pool():
    model = allocator()
    model.allocate(1 * MIB)
    model.allocate(1 * MIB - 512)
    last = model.allocate(1)

    assert (last.address, model.reserved_bytes) == (2 * MIB - 512, 2 * MIB)


def test_a_rest_of_just_1_mib_stays_with_its_large_block():
    model = allocator()
    block = model.allocate(19 * MIB)

    assert block.size_bytes == model.allocated_bytes == 20 * MIB
    assert model.requested_bytes == 19 * MIB


def test_a_rest_of_over_1_mib_is_split_off_in_the_large_pool():
    model = allocator()
    block = model.allocate(19 * MIB - 512)

    assert block.size_bytes == 19 * MIB - 512
    assert [b.size_bytes for b in model.segments()[0].blocks] == [19 * MIB - 512, 1 * MIB + 512]


def test_the_smallest_free_block_that_fits_is_taken():
    model = allocator()
    first, second, third = (model.allocate(size * MIB) for size in (50, 30, 40))
    addresses = {size: block.address for size, block in ((50, first), (30, second), (40, third))}
    for block in (first, second, third):
        model.free(block)

    assert model.allocate(31 * MIB).address == addresses[40]


def test_of_equal_free_blocks_the_lowest_is_taken():
    model = allocator()
    blocks = [model.allocate(30 * MIB) for _ in range(3)]
    for block in reversed(blocks):
        model.free(block)

    assert model.allocate(30 * MIB).address == 0


@pytest.mark.parametrize(("release", "taken"), [((2, 11), 2), ((2, 12), 0), ((2, 15), 0)])
def test_of_equal_free_blocks_the_oldest_segments_is_taken_from_2_12_on(release, taken):
    """Before, the lowest address: on Linux mostly the newest segment's (pytorch/pytorch#178362, #183591)."""
    model = CachingAllocator(AllocatorSettings(), segment_address=segment_addresses(release))
    blocks = [model.allocate(30 * MIB) for _ in range(3)]
    addresses = [block.address for block in blocks]
    for block in blocks:
        model.free(block)

    assert model.allocate(30 * MIB).address == addresses[taken]


@pytest.mark.parametrize("release", [(2, 11), (2, 12)])
@pytest.mark.parametrize("text", ["", "expandable_segments:True"])
def test_addresses_are_exact_in_the_viewer_of_snapshots(release, text):
    """500 TiB on 500 streams: each has a segment of its own, whose addresses are numbers of JavaScript."""
    settings = AllocatorSettings.parse(text)
    model = CachingAllocator(settings, segment_address=segment_addresses(release))

    starts = [model.allocate(2**40, stream).address for stream in range(500)]

    assert all(0 < start < 2**53 - 2**40 for start in starts)


def test_the_oldest_segment_is_taken_where_nothing_else_is_said():
    model = CachingAllocator()
    first, second = model.allocate(30 * MIB), model.allocate(30 * MIB)
    address = first.address
    for block in (second, first):
        model.free(block)

    assert model.allocate(30 * MIB).address == address


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_freed_neighbours_merge_in_any_order(order):
    model = allocator()
    blocks = [model.allocate(5 * MIB) for _ in range(3)]
    for number in order:
        model.free(blocks[number])

    (segment,) = model.segments()
    assert [(block.size_bytes, block.state) for block in segment.blocks] == [(20 * MIB, INACTIVE)]


def test_a_free_block_does_not_merge_with_one_in_use():
    model = allocator()
    blocks = [model.allocate(5 * MIB) for _ in range(4)]
    model.free(blocks[0])
    model.free(blocks[2])

    free = [block.size_bytes for block in model.segments()[0].blocks if block.state == INACTIVE]
    assert free == [5 * MIB, 5 * MIB]


# --- counters -------------------------------------------------------------------------------------------


def test_peaks_stay_when_memory_is_freed():
    model = allocator()
    model.free(model.allocate(30 * MIB))
    model.allocate(100)
    model.empty_cache()

    assert (model.peak_allocated_bytes, model.peak_requested_bytes) == (30 * MIB, 30 * MIB)
    assert (model.peak_reserved_bytes, model.reserved_bytes) == (32 * MIB, 2 * MIB)


def test_a_request_for_nothing_takes_nothing():
    model = allocator()
    block = model.allocate(0)
    model.free(block)

    assert (block.size_bytes, model.allocated_bytes, model.reserved_bytes) == (0, 0, 0)


def test_a_negative_request_is_refused():
    with pytest.raises(ValueError, match="-1"):
        allocator().allocate(-1)


def test_a_block_cannot_be_freed_twice():
    model = allocator()
    block = model.allocate(100)
    model.free(block)

    with pytest.raises(ValueError, match="not allocated"):
        model.free(block)


# --- emptying the cache ---------------------------------------------------------------------------------


def test_a_segment_in_use_does_not_go_back():
    model = allocator()
    keep = [model.allocate(5 * MIB), model.allocate(5 * MIB)]
    model.free(model.allocate(30 * MIB))
    model.free(keep[0])
    model.empty_cache()

    assert (model.reserved_bytes, len(model.segments())) == (20 * MIB, 1)


# --- max_split_size_mb ----------------------------------------------------------------------------------


def test_an_oversize_block_does_not_serve_a_smaller_request():
    model = allocator("max_split_size_mb:100")
    model.free(model.allocate(200 * MIB))
    model.allocate(50 * MIB)

    assert model.reserved_bytes == 250 * MIB


def test_an_oversize_block_serves_whole_what_is_less_than_20_mib_smaller():
    model = allocator("max_split_size_mb:100")
    model.free(model.allocate(200 * MIB))
    model.allocate(182 * MIB)

    assert (model.reserved_bytes, model.allocated_bytes) == (200 * MIB, 200 * MIB)


def test_an_oversize_block_does_not_serve_what_is_20_mib_smaller():
    model = allocator("max_split_size_mb:100")
    model.free(model.allocate(200 * MIB))
    model.allocate(180 * MIB)

    assert model.reserved_bytes == 380 * MIB


# --- expandable segments --------------------------------------------------------------------------------

EXPANDABLE = "expandable_segments:True"


def test_an_expandable_segment_maps_whole_pages():
    model = allocator(EXPANDABLE)
    model.allocate(30 * MIB)
    assert (model.reserved_bytes, model.allocated_bytes) == (40 * MIB, 30 * MIB)

    model.allocate(1)
    assert model.reserved_bytes == 42 * MIB


def test_an_expandable_segment_grows_from_its_free_tail():
    model = allocator(EXPANDABLE)
    first, second = model.allocate(30 * MIB), model.allocate(20 * MIB)

    assert second.address == first.address + 30 * MIB
    assert model.reserved_bytes == 60 * MIB
    assert [b.size_bytes for b in model.segments()[0].blocks] == [30 * MIB, 20 * MIB, 10 * MIB]


def test_an_expandable_segment_splits_off_every_rest():
    model = allocator(EXPANDABLE)
    block = model.allocate(20 * MIB - 512)

    assert block.size_bytes == 20 * MIB - 512
    assert [b.size_bytes for b in model.segments()[0].blocks] == [20 * MIB - 512, 512]


def test_a_gap_is_filled_before_the_tail_that_can_grow():
    model = allocator(EXPANDABLE)
    gap = model.allocate(25 * MIB)
    model.allocate(25 * MIB)  # 10 of 60 MiB are left behind it
    model.free(gap)

    assert model.allocate(5 * MIB).address == 0


def test_only_whole_free_pages_are_unmapped():
    model = allocator(EXPANDABLE)
    first = model.allocate(30 * MIB)
    model.allocate(20 * MIB)  # of 60 MiB; in use: 30 to 50
    model.free(first)
    model.empty_cache()

    assert model.reserved_bytes == 40 * MIB
    assert [(s.address, s.size_bytes) for s in model.segments()] == [(20 * MIB, 40 * MIB)]


def test_the_lowest_hole_is_mapped_again():
    model = allocator(EXPANDABLE)
    first = model.allocate(30 * MIB)
    model.allocate(20 * MIB)
    model.free(first)
    model.empty_cache()  # 0 to 20 is a hole, 20 to 30 is free

    assert model.allocate(15 * MIB).address == 0
    assert model.reserved_bytes == 60 * MIB
    assert [b.size_bytes for b in model.segments()[0].blocks] == [15 * MIB, 15 * MIB, 20 * MIB, 10 * MIB]


def test_an_expandable_segment_with_nothing_left_is_forgotten():
    model = allocator(EXPANDABLE)
    model.free(model.allocate(30 * MIB))
    model.empty_cache()

    assert (model.reserved_bytes, model.segments()) == (0, [])
    assert model.allocate(30 * MIB).address == 2**30  # new address space


def test_max_split_size_does_not_keep_expandable_blocks_whole():
    model = allocator("expandable_segments:True,max_split_size_mb:20")
    model.allocate(30 * MIB)

    assert (model.reserved_bytes, model.allocated_bytes) == (40 * MIB, 30 * MIB)


# --- whatever happens -----------------------------------------------------------------------------------

SETTINGS = (
    "",
    EXPANDABLE,
    "max_split_size_mb:40",
    "roundup_power2_divisions:[1:2,8:4,>:8]",
    "expandable_segments:True,max_split_size_mb:64,large_segment_size_mb:32",
)


def after_random_use(text, seed, steps=1500):
    chance = random.Random(seed)
    model = CachingAllocator(AllocatorSettings.parse(text))
    held = []
    for _ in range(steps):
        choice = chance.random()
        if choice < 0.55:
            held.append(model.allocate(int(2 ** chance.uniform(0, 27)), stream=chance.choice((0, 0, 9))))
        elif choice < 0.98 and held:
            model.free(held.pop(chance.randrange(len(held))))
        elif choice >= 0.99:
            model.empty_cache()
    return model, held


@pytest.mark.parametrize("text", SETTINGS)
def test_blocks_tile_their_segments_and_free_ones_are_merged(text):
    model, _ = after_random_use(text, seed=1)

    for segment in model.segments():
        address = segment.address
        for block in segment.blocks:
            assert block.address == address
            address += block.size_bytes
        assert address == segment.address + segment.size_bytes
        free = [block.state == INACTIVE for block in segment.blocks]
        assert not any(left and right for left, right in pairwise(free))


@pytest.mark.parametrize("text", SETTINGS)
def test_the_counters_are_the_sums_over_the_blocks(text):
    model, _ = after_random_use(text, seed=2)
    segments = model.segments()
    active = [block for segment in segments for block in segment.blocks if block.state != INACTIVE]

    assert model.reserved_bytes == sum(segment.size_bytes for segment in segments)
    assert model.allocated_bytes == sum(block.size_bytes for block in active)
    assert model.requested_bytes == sum(block.requested_bytes for block in active)


@pytest.mark.parametrize("text", SETTINGS)
def test_an_allocator_can_take_over_what_another_holds(text):
    model, _ = after_random_use(text, seed=3)
    other = ReplayedAllocator(AllocatorSettings.parse(text))
    blocks = [block for segment in model.segments() for block in other.adopt(segment)]
    assert other.segments() == model.segments()

    for block in blocks:
        other.free(block)
    other.empty_cache()
    assert (other.reserved_bytes, other.allocated_bytes, other.requested_bytes) == (0, 0, 0)
