"""The model against histories that real GPUs recorded, and the reading of such histories.

The recorded ones are other people's data and no part of this project; without them only the small
histories below, written by hand, are played.
"""

import functools
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compact_history import RecordedHistory, compact, load_history
from pytest_membudget.allocator.blocks import (
    ACTIVE_ALLOCATED,
    ACTIVE_PENDING_FREE,
    INACTIVE,
    BlockState,
    SegmentState,
)
from pytest_membudget.allocator.history import HistoryEvent
from pytest_membudget.allocator.settings import AllocatorSettings
from pytest_membudget.units import MIB
from tests.allocator.history_replay import replay
from tests.allocator.starting_state import starting_segments

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "truth" / "traces"
load = functools.cache(load_history)


def recorded_devices():
    index = RECORDED / "index.json"
    if not index.is_file():
        reason = f"no recorded histories at {RECORDED}"
        return [pytest.param(None, None, marks=pytest.mark.skip(reason=reason), id="none")]
    return [
        pytest.param(entry["file"], device, id=f"{entry['file'].partition('.')[0]}-{device['device']}")
        for entry in json.loads(index.read_text(encoding="utf-8"))
        for device in entry["devices"]
    ]


def recorded(file, device):
    (history,) = (h for h in load(RECORDED / file) if h.device == device)
    return history


@functools.cache
def replayed(file, device):
    return replay(recorded(file, device))


def need(file):
    if not (RECORDED / file).is_file():
        pytest.skip(f"no recorded history {file} at {RECORDED}")


every_recorded_device = pytest.mark.parametrize(("file", "device"), recorded_devices())


# --- recorded on real GPUs ------------------------------------------------------------------------------


@every_recorded_device
def test_the_recorded_peak_of_reserved_memory_is_reproduced(file, device):
    played = replayed(file, device["device"])

    assert played.allocator.peak_reserved_bytes == device["peak_reserved_MiB"] * MIB
    assert played.allocator.peak_reserved_bytes == played.recorded.peak_reserved_bytes


@every_recorded_device
def test_every_request_gets_its_recorded_address(file, device):
    seen = replayed(file, device["device"]).recorded

    assert seen.requests == device["events"]["alloc"]
    assert seen.addresses_matched == seen.requests
    assert seen.strange_frees == 0


@every_recorded_device
def test_every_segment_is_got_when_it_was_recorded(file, device):
    seen = replayed(file, device["device"]).recorded
    events = device["events"]

    assert seen.segments == events.get("segment_alloc", 0) + events.get("segment_map", 0)
    assert seen.segments_matched == seen.segments
    assert seen.reserved_matched == seen.requests


@every_recorded_device
def test_the_recorded_last_state_is_reached_block_for_block(file, device):
    played = replayed(file, device["device"])
    last = recorded(file, device["device"]).segments

    assert described(played.allocator.segments()) == described(last)
    assert played.allocator.allocated_bytes == device["final_allocated_MiB"] * MIB
    assert played.allocator.reserved_bytes == device["final_reserved_MiB"] * MIB


@every_recorded_device
def test_the_peak_of_what_was_requested_is_the_recorded_one(file, device):
    # recorded: what is active at the end, and the requests undone from there
    history = recorded(file, device["device"])
    active = sum(b.requested_bytes for s in history.segments for b in s.blocks if b.state != INACTIVE)
    peak = active
    for event in reversed(history.events):
        if event.action in ("alloc", "free_completed"):
            active += event.size_bytes if event.action == "free_completed" else -event.size_bytes
            peak = max(peak, active)

    assert replayed(file, device["device"]).allocator.peak_requested_bytes == peak


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
@every_recorded_device
def test_a_history_that_lost_its_beginning_still_plays_as_recorded(file, device, part):
    history = recorded(file, device["device"])
    tail = replace(history, events=history.events[int(part * len(history.events)) :])
    played = replay(tail)

    assert played.recorded.addresses_matched == played.recorded.requests
    assert described(played.allocator.segments()) == described(history.segments)


def described(segments):
    """Everything that counts; what a free block was once asked for does not."""
    return {
        (segment.address, segment.size_bytes, segment.stream, segment.is_small): [
            (b.address, b.size_bytes, b.state, b.state != INACTIVE and b.requested_bytes)
            for b in segment.blocks
        ]
        for segment in segments
    }


# --- written by hand ------------------------------------------------------------------------------------


def event(action, address, size, stream=0):
    return HistoryEvent(action, address, size, stream)


def segment(address, size, *blocks, is_small=False, is_expandable=False):
    return SegmentState(address, size, 0, is_small, is_expandable, tuple(BlockState(*b) for b in blocks))


def history(events, segments, **settings):
    return RecordedHistory(0, tuple(events), tuple(segments), AllocatorSettings(**settings))


def test_a_file_is_read_device_by_device(tmp_path):
    path = tmp_path / "history.json.gz"
    content = {
        "settings": "max_split_size_mb:64",
        "traces": [[], [["segment_alloc", 0, 2 * MIB, 7], ["alloc", 0, 100, 7]]],
        "segments": [
            {
                "device": 1,
                "address": 0,
                "total_size": 2 * MIB,
                "stream": 7,
                "segment_type": "small",
                "is_expandable": False,
                "blocks": [[0, 512, 100, "active_allocated"], [512, 2 * MIB - 512, 0, "inactive"]],
            }
        ],
    }
    path.write_bytes(gzip.compress(json.dumps(content).encode()))

    (loaded,) = load_history(path)
    assert loaded == RecordedHistory(
        device=1,
        events=(event("segment_alloc", 0, 2 * MIB, 7), event("alloc", 0, 100, 7)),
        segments=(
            SegmentState(
                address=0,
                size_bytes=2 * MIB,
                stream=7,
                is_small=True,
                is_expandable=False,
                blocks=(
                    BlockState(0, 512, 100, ACTIVE_ALLOCATED),
                    BlockState(512, 2 * MIB - 512, 0, INACTIVE),
                ),
            ),
        ),
        settings=AllocatorSettings(max_split_size_bytes=64 * MIB),
    )


@pytest.mark.parametrize(("more", "expected"), [({}, False), ({"pool_id": (0, 0)}, True)])
def test_pools_in_trace_entries_show_how_free_blocks_were_chosen(more, expected):
    """Both came with torch 2.12: pytorch#177717, and #178362 a week later."""
    entry = {"action": "segment_alloc", "addr": 0, "size": 2 * MIB, "stream": 0, **more}

    kept = compact({"device_traces": [[entry]], "segments": []}, 0, "")

    assert kept["oldest_segment_first"] == expected


def test_undoing_all_of_a_history_from_empty_leaves_nothing():
    events = [
        event("segment_alloc", 0, 20 * MIB),
        event("alloc", 0, 5 * MIB),
        event("free_requested", 0, 5 * MIB),
        event("free_completed", 0, 5 * MIB),
    ]

    assert starting_segments(history(events, [segment(0, 20 * MIB, (0, 20 * MIB, 0, INACTIVE))])) == []


def test_what_was_freed_was_there_before():
    events = [
        event("free_requested", 0, 5 * MIB - 7),
        event("free_completed", 0, 5 * MIB - 7),
        event("segment_free", 0, 20 * MIB),
    ]

    assert starting_segments(history(events, [])) == [
        segment(
            0,
            20 * MIB,
            (0, 5 * MIB, 5 * MIB - 7, ACTIVE_ALLOCATED),
            (5 * MIB, 15 * MIB, 0, INACTIVE),
        )
    ]


def test_a_block_between_its_two_frees_waits_for_a_stream():
    events = [event("free_completed", 0, 100)]
    last = [segment(0, 2 * MIB, (0, 2 * MIB, 0, INACTIVE), is_small=True)]

    (first, _) = starting_segments(history(events, last))[0].blocks
    assert first == BlockState(0, 512, 100, ACTIVE_PENDING_FREE)


def test_up_to_1_mib_behind_a_large_block_belongs_to_it():
    # 19 of 20 MiB: a rest of 1 MiB is not split off, so it cannot have been free
    events = [event("free_requested", 0, 19 * MIB), event("free_completed", 0, 19 * MIB)]
    last = [segment(0, 20 * MIB, (0, 20 * MIB, 0, INACTIVE))]

    assert starting_segments(history(events, last)) == [
        segment(0, 20 * MIB, (0, 20 * MIB, 19 * MIB, ACTIVE_ALLOCATED))
    ]


def test_the_first_request_behind_a_large_block_shows_where_it_ends():
    # 6.5 of a 7 MiB block, 13 MiB free behind it: the next block begins at 7
    events = [
        event("alloc", 7 * MIB, 2 * MIB),
        event("free_requested", 0, 13 * MIB // 2),
        event("free_completed", 0, 13 * MIB // 2),
    ]
    last = [
        segment(
            0,
            20 * MIB,
            (0, 7 * MIB, 0, INACTIVE),
            (7 * MIB, 2 * MIB, 2 * MIB, ACTIVE_ALLOCATED),
            (9 * MIB, 11 * MIB, 0, INACTIVE),
        )
    ]

    assert starting_segments(history(events, last)) == [
        segment(
            0,
            20 * MIB,
            (0, 7 * MIB, 13 * MIB // 2, ACTIVE_ALLOCATED),
            (7 * MIB, 13 * MIB, 0, INACTIVE),
        )
    ]


def test_unmapped_pages_were_mapped_before():
    events = [event("segment_unmap", 20 * MIB, 20 * MIB), event("segment_map", 60 * MIB, 20 * MIB)]
    last = [
        segment(0, 20 * MIB, (0, 20 * MIB, 20 * MIB, ACTIVE_ALLOCATED), is_expandable=True),
        segment(
            40 * MIB,
            40 * MIB,
            (40 * MIB, 40 * MIB, 40 * MIB, ACTIVE_ALLOCATED),
            is_expandable=True,
        ),
    ]

    (stretch,) = starting_segments(history(events, last, expandable_segments=True))
    assert (stretch.address, stretch.size_bytes, stretch.is_small) == (0, 60 * MIB, False)


def test_a_request_that_was_placed_elsewhere_does_not_match():
    # the best fit is the 5 MiB gap, not the larger one
    events = [event("alloc", 10 * MIB, 5 * MIB)]
    last = [
        segment(
            0,
            20 * MIB,
            (0, 3 * MIB, 0, INACTIVE),
            (3 * MIB, 7 * MIB, 7 * MIB, ACTIVE_ALLOCATED),
            (10 * MIB, 5 * MIB, 5 * MIB, ACTIVE_ALLOCATED),
            (15 * MIB, 5 * MIB, 0, INACTIVE),
        ),
        segment(2**30, 6 * MIB, (2**30, 6 * MIB, 0, INACTIVE)),
    ]
    seen = replay(history(events, last)).recorded

    assert (seen.requests, seen.addresses_matched, seen.reserved_matched) == (1, 0, 1)


def test_a_segment_that_was_not_recorded_does_not_match():
    events = [
        event("alloc", 0, 5 * MIB),
        event("segment_alloc", 2**30, 20 * MIB),
        event("alloc", 2**30, 5 * MIB),
    ]
    last = [
        segment(0, 20 * MIB, (0, 5 * MIB, 5 * MIB, ACTIVE_ALLOCATED), (5 * MIB, 15 * MIB, 0, INACTIVE)),
        segment(
            2**30,
            20 * MIB,
            (2**30, 5 * MIB, 5 * MIB, ACTIVE_ALLOCATED),
            (2**30 + 5 * MIB, 15 * MIB, 0, INACTIVE),
        ),
    ]
    seen = replay(history(events, last)).recorded

    assert (seen.addresses_matched, seen.segments, seen.segments_matched) == (1, 1, 0)
    assert seen.peak_reserved_bytes == 40 * MIB


def two_free_segments_of_one_size(chosen):
    """Two segments of 40 MiB, the older one above, both freed; the next request lies in ``chosen``."""
    older, newer = 2**31, 2**30
    events = []
    for address in (older, newer):
        events += [event("segment_alloc", address, 40 * MIB), event("alloc", address, 40 * MIB)]
    for address in (older, newer):
        events += [event("free_requested", address, 40 * MIB), event("free_completed", address, 40 * MIB)]
    place = {"older": older, "newer": newer}[chosen]
    events.append(event("alloc", place, 40 * MIB))
    blocks = [
        segment(
            address,
            40 * MIB,
            (address, 40 * MIB, 40 * MIB, ACTIVE_ALLOCATED)
            if address == place
            else (address, 40 * MIB, 0, INACTIVE),
        )
        for address in (newer, older)
    ]
    return history(events, blocks)


@pytest.mark.parametrize(("oldest_first", "chosen"), [(True, "older"), (False, "newer")])
def test_of_free_blocks_of_one_size_the_recording_releases_choice_is_taken(oldest_first, chosen):
    """From torch 2.12 on the oldest segment's (pytorch#178362, #183591); before, the lowest address."""
    recorded_run = replace(two_free_segments_of_one_size(chosen), oldest_segment_first=oldest_first)
    other_rule = replace(recorded_run, oldest_segment_first=not oldest_first)

    assert replay(recorded_run).recorded.addresses_matched == 3
    assert replay(other_rule).recorded.addresses_matched == 2


def test_blocks_of_an_old_segment_keep_their_offsets():
    """The second request is split off behind the first, in a segment above an older one."""
    events = [
        event("segment_alloc", 2**31, 20 * MIB),
        event("alloc", 2**31, 5 * MIB),
        event("alloc", 2**31 + 5 * MIB, 8 * MIB),
    ]
    last = [
        segment(
            2**31,
            20 * MIB,
            (2**31, 5 * MIB, 5 * MIB, ACTIVE_ALLOCATED),
            (2**31 + 5 * MIB, 8 * MIB, 8 * MIB, ACTIVE_ALLOCATED),
            (2**31 + 13 * MIB, 7 * MIB, 0, INACTIVE),
        )
    ]
    seen = replay(replace(history(events, last), oldest_segment_first=True)).recorded

    assert (seen.addresses_matched, seen.segments_matched) == (2, 1)


def test_expandable_segments_keep_their_offsets():
    events = [
        event("segment_map", 2**31, 20 * MIB),
        event("alloc", 2**31, 5 * MIB),
        event("segment_map", 2**31 + 20 * MIB, 20 * MIB),
        event("alloc", 2**31 + 5 * MIB, 30 * MIB),
    ]
    last = [
        segment(
            2**31,
            40 * MIB,
            (2**31, 5 * MIB, 5 * MIB, ACTIVE_ALLOCATED),
            (2**31 + 5 * MIB, 30 * MIB, 30 * MIB, ACTIVE_ALLOCATED),
            (2**31 + 35 * MIB, 5 * MIB, 0, INACTIVE),
            is_expandable=True,
        )
    ]
    recorded_run = history(events, last, expandable_segments=True)
    seen = replay(replace(recorded_run, oldest_segment_first=True)).recorded

    assert (seen.addresses_matched, seen.segments_matched) == (2, 2)


def test_a_free_that_the_history_does_not_explain_is_counted():
    events = [event("alloc", 0, 100), event("free_requested", 2**30, 100)]
    last = [
        segment(0, 2 * MIB, (0, 512, 100, ACTIVE_ALLOCATED), (512, 2 * MIB - 512, 0, INACTIVE), is_small=True)
    ]

    assert replay(history(events, last)).recorded.strange_frees == 1
