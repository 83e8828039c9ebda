"""The history that the allocator keeps: PyTorch's words and order, and for which request."""

import random
from dataclasses import replace

import pytest

from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.allocator.device_memory import OutOfMemory
from pytest_membudget.allocator.history import NO_REQUEST, DeviceHistory, HistoryLog
from pytest_membudget.allocator.settings import DEFAULT_SETTINGS, AllocatorSettings
from pytest_membudget.units import MIB
from tests.allocator.history_replay import replay

EXPANDABLE = AllocatorSettings(expandable_segments=True)


def recorded(settings=DEFAULT_SETTINGS, capacity_bytes=None):
    """An allocator and its history."""
    allocator, log = CachingAllocator(settings, capacity_bytes), HistoryLog()
    allocator.listen(log.note)
    return allocator, log


def shown(log):
    """Action, size and request of each event."""
    return [(event.action, event.size_bytes, event.request) for event in log.events()]


def actions(log):
    return [event.action for event in log.events()]


def test_a_request_is_recorded_after_its_segment_and_with_the_requested_size():
    allocator, log = recorded()
    log.request = 7

    block = allocator.allocate(1000)

    assert shown(log) == [("segment_alloc", 2 * MIB, 7), ("alloc", 1000, 7)]
    assert {event.address for event in log.events()} == {block.address}


def test_a_free_is_requested_and_completed_in_the_name_of_the_blocks_own_request():
    allocator, log = recorded()
    log.request = 1
    block = allocator.allocate(1000)
    log.request = 2
    allocator.allocate(2000)

    allocator.free(block)

    assert shown(log)[-2:] == [("free_requested", 1000, 1), ("free_completed", 1000, 1)]


def test_a_free_that_another_stream_delays_is_completed_at_the_next_request():
    allocator, log = recorded()
    block = allocator.allocate(1000)
    allocator.record_stream(block, 3)

    allocator.free(block)
    assert actions(log) == ["segment_alloc", "alloc", "free_requested"]
    allocator.allocate(1000)

    assert actions(log)[2:] == ["free_requested", "free_completed", "alloc"]


def test_nothing_is_recorded_of_an_empty_request():
    allocator, log = recorded()

    allocator.free(allocator.allocate(0))

    assert actions(log) == []


def test_segments_that_are_released_are_recorded():
    allocator, log = recorded()
    allocator.free(allocator.allocate(30 * MIB))

    allocator.empty_cache()

    assert shown(log)[-1] == ("segment_free", 30 * MIB, NO_REQUEST)


def test_pages_of_an_expandable_segment_are_mapped_and_unmapped():
    allocator, log = recorded(EXPANDABLE)
    block = allocator.allocate(30 * MIB)
    address = block.address
    allocator.free(block)
    allocator.empty_cache()

    events = [event for event in log.events() if event.action.startswith("segment")]

    # pages of the large pool are 20 MiB: two of them for 30 MiB
    assert [(e.action, e.address, e.size_bytes) for e in events] == [
        ("segment_map", address, 40 * MIB),
        ("segment_unmap", address, 40 * MIB),
    ]


def test_out_of_memory_is_recorded_with_the_requested_block_and_what_the_device_had_left():
    allocator, log = recorded(capacity_bytes=100 * MIB)
    allocator.allocate(60 * MIB, 5)
    log.request = 4

    with pytest.raises(OutOfMemory):
        allocator.allocate(50 * MIB + 1, 5)

    last = list(log.events())[-1]
    # blocks are multiples of 512 bytes
    assert last[:5] == ("oom", 40 * MIB, 50 * MIB + 512, 5, 4)


def test_a_request_beyond_any_device_is_refused_without_an_event():
    allocator, log = recorded(capacity_bytes=100 * MIB)

    with pytest.raises(OutOfMemory):
        allocator.allocate(2**60)

    assert actions(log) == []


def test_the_requests_of_active_blocks_and_of_segments_are_known():
    allocator, log = recorded()
    log.request = 1
    first = allocator.allocate(1000)
    log.request = 2
    second = allocator.allocate(1000)
    address = second.address

    assert log.requests == {first.address: 1, address: 2}
    assert log.segment_requests == {first.address: 1}
    allocator.free(second)
    assert address not in log.requests


def busy(allocator, seed):
    """A few thousand requests of all sizes on two streams; some outlive others, some fail."""
    drawn = random.Random(seed)
    live = []
    for step in range(3000):
        if live and drawn.random() < 0.48:
            allocator.free(live.pop(drawn.randrange(len(live))))
        elif step % 500 == 499:
            allocator.empty_cache()
        else:
            try:
                live.append(allocator.allocate(int(2 ** drawn.uniform(2, 27)), drawn.choice((0, 0, 0, 9))))
            except OutOfMemory:
                for block in [live.pop(0) for _ in range(len(live) // 2)]:
                    allocator.free(block)
        if live and drawn.random() < 0.05:
            allocator.record_stream(live[-1], 9)
    return allocator


FIGURES = ("peak_allocated_bytes", "peak_active_bytes", "peak_requested_bytes", "peak_reserved_bytes")
CASES = pytest.mark.parametrize(
    ("settings", "capacity_bytes"),
    [
        (AllocatorSettings(), None),
        (EXPANDABLE, None),
        (AllocatorSettings(roundup_power2_divisions=(4,) * 16), None),
        (AllocatorSettings(), 600 * MIB),
        (EXPANDABLE, 600 * MIB),
    ],
    ids=["default", "expandable", "rounded", "full", "full expandable"],
)


@CASES
def test_keeping_a_history_changes_nothing(settings, capacity_bytes):
    plain = busy(CachingAllocator(settings, capacity_bytes), 1)
    recording = busy(recorded(settings, capacity_bytes)[0], 1)

    assert recording.segments() == plain.segments()
    assert [getattr(recording, name) for name in FIGURES] == [getattr(plain, name) for name in FIGURES]
    assert recording.num_ooms == plain.num_ooms
    assert plain.num_ooms == 0 if capacity_bytes is None else plain.num_ooms > 0


@CASES
def test_the_history_played_again_gives_every_address_and_peak(settings, capacity_bytes):
    allocator, log = recorded(settings, capacity_bytes)
    busy(allocator, 2)
    history = DeviceHistory(0, tuple(log.events()), tuple(allocator.segments()), replace(settings))

    played = replay(history)

    seen = played.recorded
    assert seen.requests > 1000
    assert seen.addresses_matched == seen.reserved_matched == seen.requests
    assert seen.ooms_matched == seen.ooms == allocator.num_ooms
    assert [getattr(played.allocator, name) for name in FIGURES] == [
        getattr(allocator, name) for name in FIGURES
    ]
