"""Memory by address: what is left of a block, what merges, and what a history that was cut still says.

The rules are those of ``should_split``, ``round_size`` and ``try_merge_blocks`` in
``c10/cuda/CUDACachingAllocator.cpp``, 2.13: the small pool, up to 1 MiB, splits off rests from 512 bytes on,
the large one those over 1 MiB.
"""

import pytest

from pytest_membudget.allocator.block_map import BlockMap, start_of
from pytest_membudget.allocator.history import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    AllocatorSettings,
    BlockState,
    DeviceHistory,
    HistoryEvent,
    SegmentState,
)
from pytest_membudget.units import MIB


def memory(size_mib=20, action="segment_alloc", **settings):
    made = BlockMap(AllocatorSettings(**settings))
    made.change(action, 0, size_mib * MIB)
    return made


def free(made):
    return sorted((start, end - start) for start, end in made.free_stretches())


#: Of how large a segment, what is requested, the size of the block, and settings.
BLOCKS = {
    "512 bytes at least": (20, 1, 512, {}),
    "512 bytes": (20, 512, 512, {}),
    "rounded to 512 bytes": (20, 513, 1024, {}),
    "up to 1 MiB": (20, MIB - 1, MIB, {}),
    "beyond 1 MiB": (20, MIB + 1, MIB + 512, {}),
    "a rest of 1 MiB stays with a large block": (20, 19 * MIB, 20 * MIB, {}),
    "and after rounding": (20, 19 * MIB - 1, 20 * MIB, {}),
    "a larger rest is split off": (20, 19 * MIB - 512, 19 * MIB - 512, {}),
    "the small pool splits off 512 bytes": (1, MIB - 512, MIB - 512, {}),
    "expandable segments split off 512 bytes of large blocks too": (
        20, 20 * MIB - 512, 20 * MIB - 512, {"action": "segment_map", "expandable_segments": True}
    ),
    "from max_split_size on none is split": (
        64, 32 * MIB, 64 * MIB, {"max_split_size_bytes": 32 * MIB}
    ),
    # PyTorch's documentation: with 4 divisions 1200 becomes 1280
    "rounded to divisions of powers of two": (
        20, 1200 * 1024, 1280 * 1024, {"roundup_power2_divisions": (4,) * 16}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_a_request_gets_a_block_and_the_rest_is_free(name):
    size_mib, requested, block, settings = BLOCKS[name]
    made = memory(size_mib, **settings)

    assert made.allocate(0, requested) == block
    assert free(made) == ([(block, size_mib * MIB - block)] if block < size_mib * MIB else [])


def test_free_neighbours_are_one():
    made = memory()
    for number in range(3):
        made.allocate(number * 2 * MIB, 2 * MIB)
    made.free(0)
    made.free(4 * MIB)
    assert free(made) == [(0, 2 * MIB), (4 * MIB, 16 * MIB)]
    made.free(2 * MIB)
    assert free(made) == [(0, 20 * MIB)]


def test_segments_do_not_merge_where_one_ends_at_the_next():
    made = memory()
    made.change("segment_alloc", 20 * MIB, 20 * MIB)
    made.allocate(0, 5 * MIB)
    made.free(0)
    made.allocate(20 * MIB, 5 * MIB)
    made.free(20 * MIB)

    assert free(made) == [(0, 20 * MIB), (20 * MIB, 20 * MIB)]


def test_addresses_of_a_segment_that_is_gone_merge_again():
    made = memory()
    assert made.change("segment_free", 0, 20 * MIB) == -20 * MIB
    assert free(made) == []
    assert made.change("segment_alloc", 0, 40 * MIB) == 40 * MIB
    made.allocate(0, 20 * MIB)
    made.free(0)
    assert free(made) == [(0, 40 * MIB)]


def test_pages_merge_with_those_before_and_leave_what_is_around_them():
    made = memory(action="segment_map", expandable_segments=True)
    made.change("segment_map", 20 * MIB, 20 * MIB)
    made.allocate(0, 5 * MIB)
    assert free(made) == [(5 * MIB, 35 * MIB)]
    assert made.change("segment_unmap", 20 * MIB, 20 * MIB) == -20 * MIB
    assert free(made) == [(5 * MIB, 15 * MIB)]


def test_a_block_inside_another_shows_where_that_one_ends():
    """As where a CUDA graph's pool is set back: 19 MiB are followed by 1 MiB that was split off."""
    made = memory()
    made.allocate(0, 19 * MIB)

    assert made.free_end(19 * MIB) is None
    assert made.begin_free_at(19 * MIB) == (0, 19 * MIB)
    assert made.allocate(19 * MIB, MIB) == MIB
    made.free(0)
    assert free(made) == [(0, 19 * MIB)]


def test_less_than_1_mib_in_front_of_a_large_block_is_the_rest_of_the_one_before():
    made = memory()
    made.allocate(0, 5 * MIB)

    assert made.begin_free_at(6 * MIB) == (0, 6 * MIB)
    made.allocate(6 * MIB, 5 * MIB)
    made.free(0)
    assert free(made) == [(0, 6 * MIB), (11 * MIB, 9 * MIB)]


# A history that has lost its beginning


def history(events, *blocks, **settings):
    segment = SegmentState(0, 20 * MIB, False, tuple(BlockState(*block) for block in blocks))
    events = tuple(HistoryEvent(action, address, size) for action, address, size in events)
    return DeviceHistory(events, (segment,), AllocatorSettings(**settings))


def test_undoing_all_of_a_history_from_empty_leaves_nothing():
    events = [
        ("segment_alloc", 0, 20 * MIB),
        ("alloc", 0, 5 * MIB),
        ("free_requested", 0, 5 * MIB),
        ("free_completed", 0, 5 * MIB),
    ]
    start = start_of(history(events, (0, 20 * MIB, 0, INACTIVE)))

    assert (start.blocks, start.reserved, free(start.memory)) == ((), (), [])


def test_what_was_freed_was_there_before():
    events = [("free_requested", 0, 5 * MIB - 1), ("free_completed", 0, 5 * MIB - 1)]
    start = start_of(history(events, (0, 20 * MIB, 0, INACTIVE)))

    assert start.blocks == (BlockState(0, 5 * MIB, 5 * MIB - 1, ACTIVE_ALLOCATED),)
    assert start.reserved == ((0, 20 * MIB),)
    assert free(start.memory) == [(5 * MIB, 15 * MIB)]


def test_what_had_been_freed_and_was_waiting_is_not_in_use():
    start = start_of(history([("free_completed", 0, 5 * MIB)], (0, 20 * MIB, 0, INACTIVE)))

    assert start.blocks == (BlockState(0, 5 * MIB, 5 * MIB, ACTIVE_PENDING_FREE),)


def test_what_is_still_there_has_its_recorded_size():
    blocks = [(0, 6 * MIB, 5 * MIB, ACTIVE_ALLOCATED), (6 * MIB, 14 * MIB, 0, INACTIVE)]
    start = start_of(history([("free_completed", 6 * MIB, 13 * MIB)], *blocks))

    assert [(block.address, block.size_bytes) for block in start.blocks] == [
        (6 * MIB, 14 * MIB),  # 1 MiB behind it is less than a free block of the large pool
        (0, 6 * MIB),
    ]
    assert free(start.memory) == []
