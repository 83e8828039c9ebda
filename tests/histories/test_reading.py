"""Snapshots are read as data: what is in them is never run, and what is none is told."""

import pickle

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.histories.reading import read_snapshot

MIB = 2**20
FRAMES = [{"filename": "/home/u/repo/model.py", "line": 12, "name": "forward"}]


def entry(action, address, size, **more):
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": FRAMES, **more}


def snapshot(**more):
    segment = {
        "device": 0, "address": 4 * MIB, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
        "is_expandable": False,
        "blocks": [
            {"size": 1024, "requested_size": 1000, "state": "active_allocated"},
            {"size": 2 * MIB - 1024, "requested_size": 0, "state": "inactive"},
        ],
    }  # fmt: skip
    trace = [entry("segment_alloc", 4 * MIB, 2 * MIB), entry("alloc", 4 * MIB, 1000)]
    return {"segments": [segment], "device_traces": [trace, []], **more}


@pytest.fixture
def saved(tmp_path):
    """``saved(content)`` writes a pickle."""

    def write(content):
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps(content))
        return path

    return write


def test_events_and_stacks_come_in_pairs(saved):
    read = read_snapshot(saved(snapshot()))

    assert [event.action for event in read.events] == ["segment_alloc", "alloc"]
    assert read.events[1].size_bytes == 1000
    assert [event.frames for event in read.events] == [FRAMES, FRAMES]


def test_blocks_without_addresses_lie_one_behind_the_other(saved):
    """Snapshots of older releases have none."""
    (segment,) = read_snapshot(saved(snapshot())).segments

    assert [block.address for block in segment.blocks] == [4 * MIB, 4 * MIB + 1024]
    assert [block.requested_bytes for block in segment.blocks] == [1000, 0]


def test_the_allocators_settings_are_those_of_the_recording(saved):
    settings = {
        "max_split_size": 40 * MIB, "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "2": 4},
    }  # fmt: skip

    read = read_snapshot(saved(snapshot(allocator_settings=settings))).settings

    assert read.max_split_size_bytes == 40 * MIB
    assert (read.expandable_segments, read.roundup_power2_divisions) == (True, (0, 4))


def test_an_out_of_memory_event_says_what_was_free(saved):
    trace = [{"action": "oom", "device_free": 5 * MIB, "size": 9 * MIB, "stream": 0, "frames": []}]

    (event,) = read_snapshot(saved(snapshot(device_traces=[trace]))).events

    assert (event.action, event.address, event.size_bytes) == ("oom", 5 * MIB, 9 * MIB)


class Runs:
    """A pickle of it calls a function when it is loaded."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return (open, (self._path, "w"))


def test_nothing_in_a_file_is_run(saved, tmp_path):
    trap = tmp_path / "ran"

    with pytest.raises(UsageMistake, match=r"asks for \w+\.open, and a snapshot needs no code"):
        read_snapshot(saved(snapshot(device_traces=[[Runs(str(trap))]])))

    assert not trap.exists()


@pytest.mark.parametrize(
    "content",
    [[], {"segments": []}, {"segments": [], "device_traces": [[{"action": "alloc"}]]}, 7, "text"],
)
def test_what_is_no_snapshot_is_refused(saved, content):
    with pytest.raises(UsageMistake, match=r"snapshot\.pickle is no snapshot of torch\.cuda\.memory"):
        read_snapshot(saved(content))


@pytest.mark.parametrize("data", [b"", b"no pickle", b"\x80\x04"])
def test_what_is_no_pickle_is_refused(tmp_path, data):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data)

    with pytest.raises(UsageMistake, match="is no snapshot"):
        read_snapshot(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageMistake, match="cannot be read"):
        read_snapshot(tmp_path / "none")


def test_a_device_without_events_is_refused_with_what_to_call(saved):
    with pytest.raises(UsageMistake, match=r"no events of device 1: call .*_record_memory_history"):
        read_snapshot(saved(snapshot()), device=1)


def test_an_unknown_device_is_refused_with_the_known_ones(saved):
    with pytest.raises(UsageMistake, match="has devices 0 to 1, and no device 2"):
        read_snapshot(saved(snapshot()), device=2)
