"""What was held before the first event of a history that has lost its beginning."""

from benchmarks.recorded_history import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    BlockState,
    RecordedHistory,
    SegmentState,
    start_of,
)
from pytest_membudget.allocator.history import AllocatorSettings, HistoryEvent
from pytest_membudget.units import MIB
from tests.allocator.test_block_map import free


def history(events, *blocks, **settings):
    segment = SegmentState(0, 20 * MIB, False, tuple(BlockState(*block) for block in blocks))
    events = tuple(HistoryEvent(action, address, size) for action, address, size in events)
    return RecordedHistory(events, AllocatorSettings(**settings), (segment,))


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
