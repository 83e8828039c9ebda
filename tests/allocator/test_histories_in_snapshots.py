"""What a snapshot of PyTorch's allocator says, as values."""

import pytest

from pytest_membudget.allocator.history import AllocatorSettings, DeviceHistory, HistoryEvent, history_in

MIB = 2**20
FRAMES = [{"filename": "/home/u/repo/model.py", "line": 12, "name": "forward"}]


def entry(action, address, size, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": FRAMES, **more}


def snapshot(**more):
    segment = {
        "device": 0, "address": 4 * MIB, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
        "is_expandable": False,
        "blocks": [
            {"address": 4 * MIB, "size": 1024, "requested_size": 1000, "state": "active_allocated"},
            {"address": 4 * MIB + 1024, "size": 2 * MIB - 1024, "requested_size": 0, "state": "inactive"},
        ],
    }  # fmt: skip
    trace = [entry("segment_alloc", 4 * MIB, 2 * MIB), entry("alloc", 4 * MIB, 1000)]
    return {"segments": [segment], "device_traces": [trace, []], **more}


def test_a_history_has_the_devices_events_stacks_and_segments():
    read = history_in(snapshot(), 0)

    assert [(event.action, event.size_bytes) for event in read.events] == [
        ("segment_alloc", 2 * MIB),
        ("alloc", 1000),
    ]
    assert [event.frames for event in read.events] == [FRAMES, FRAMES]
    assert [block.requested_bytes for segment in read.segments for block in segment.blocks] == [1000, 0]


def test_a_device_of_which_nothing_was_recorded_has_no_events():
    assert history_in(snapshot(), 1).events == ()


def test_the_allocators_settings_are_those_of_the_recording():
    settings = {
        "max_split_size": 40 * MIB, "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "2": 4},
    }  # fmt: skip

    read = history_in(snapshot(allocator_settings=settings), 0).settings

    assert read.max_split_size_bytes == 40 * MIB
    assert (read.expandable_segments, read.roundup_power2_divisions) == (True, (0, 4))


def test_an_out_of_memory_event_says_what_was_free():
    trace = [{"action": "oom", "device_free": 5 * MIB, "size": 9 * MIB, "stream": 0, "frames": []}]

    (event,) = history_in(snapshot(device_traces=[trace]), 0).events

    assert (event.action, event.address, event.size_bytes) == ("oom", 5 * MIB, 9 * MIB)


def digest(*events):
    return DeviceHistory(tuple(HistoryEvent(*one) for one in events), (), AllocatorSettings()).digest()


def test_equal_runs_have_equal_digests_wherever_their_blocks_lie():
    two = ("alloc", 4096, 512), ("alloc", 8192, 512)
    freed = [("free_requested", address, 512) for address in (4096, 8192)]
    then = "alloc", 4096, 512

    assert digest(*two, *freed, then) == digest(*two, *freed[::-1], then)
    assert digest(*two, freed[0]) == digest(
        ("alloc", 512, 512), ("alloc", 1024, 512), ("free_requested", 512, 512)
    )


@pytest.mark.parametrize(
    "other",
    [
        [("alloc", 4096, 512), ("alloc", 8192, 513), ("free_requested", 4096, 512)],
        [("alloc", 4096, 512), ("alloc", 8192, 512), ("free_requested", 8192, 512)],
        [("alloc", 4096, 512), ("free_requested", 4096, 512), ("alloc", 8192, 512)],
        [("alloc", 4096, 512), ("alloc", 8192, 512)],
    ],
)
def test_other_sizes_blocks_or_orders_have_other_digests(other):
    assert digest(("alloc", 4096, 512), ("alloc", 8192, 512), ("free_requested", 4096, 512)) != digest(*other)
