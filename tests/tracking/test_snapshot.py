"""The dictionary of a snapshot: PyTorch's keys and words, addresses that a viewer can hold, shared frames."""

import pickle

import pytest

from pytest_membudget.allocator.caching import CachingAllocator
from pytest_membudget.allocator.history import DeviceHistory, HistoryLog
from pytest_membudget.allocator.settings import DEFAULT_SETTINGS, AllocatorSettings
from pytest_membudget.tracking.snapshot import snapshot_of
from pytest_membudget.units import MIB

FRAMES = [[{"filename": f"file{number}.py", "line": number, "name": "f"}] for number in range(3)]


PURPOSES = {number: f"request {number}" for number in range(3)}


class Recorded(CachingAllocator):
    """An allocator with its history."""

    def __init__(self, settings=DEFAULT_SETTINGS, capacity_bytes=None):
        super().__init__(settings, capacity_bytes)
        self.log = HistoryLog()
        self.listen(self.log.note)


def snapshot(allocator, alloc_conf=""):
    events = tuple(allocator.log.events())
    history = DeviceHistory(0, events, tuple(allocator.segments()), allocator.settings)
    return snapshot_of(history, FRAMES.__getitem__, PURPOSES, allocator.log, alloc_conf, 1_000_000)


def two_blocks(settings=DEFAULT_SETTINGS):
    allocator = Recorded(settings)
    allocator.log.request = 0
    first = allocator.allocate(1000)
    allocator.log.request = 1
    allocator.allocate(5000)
    return allocator, first


def test_the_keys_are_those_of_pytorchs_snapshots():
    # torch/csrc/cuda/memory_snapshot.cpp, 2.13
    made = snapshot(two_blocks()[0])

    assert list(made) == ["segments", "device_traces", "allocator_settings", "external_annotations"]
    assert set(made["segments"][0]) == {
        "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream",
        "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks",
    }  # fmt: skip
    assert set(made["segments"][0]["blocks"][0]) == {"address", "size", "requested_size", "state", "frames"}
    assert set(made["device_traces"][0][0]) == {
        "action", "addr", "size", "stream", "compile_context", "user_metadata", "time_us", "frames",
    }  # fmt: skip


def test_a_segment_lists_its_blocks_with_sizes_states_and_the_frames_of_their_requests():
    allocator, first = two_blocks()
    allocator.free(first)

    (segment,) = snapshot(allocator)["segments"]

    assert (segment["segment_type"], segment["total_size"]) == ("small", 2 * MIB)
    assert segment["frames"] is FRAMES[0]
    assert [
        (block["size"], block["requested_size"], block["state"], block["frames"])
        for block in segment["blocks"]
    ] == [
        (1024, 0, "inactive", []),
        (5120, 5000, "active_allocated", FRAMES[1]),
        (2 * MIB - 6144, 0, "inactive", []),
    ]
    assert [segment[f"{kind}_size"] for kind in ("allocated", "active", "requested")] == [5120, 5120, 5000]


def test_a_block_that_waits_for_a_stream_is_active_and_not_allocated():
    allocator, first = two_blocks()
    allocator.record_stream(first, 2)
    allocator.free(first)

    (segment,) = snapshot(allocator)["segments"]

    assert segment["blocks"][0]["state"] == "active_pending_free"
    assert [segment[f"{kind}_size"] for kind in ("allocated", "active", "requested")] == [5120, 6144, 6000]


def test_events_are_written_in_order_a_microsecond_apart_with_what_is_known_of_their_requests():
    allocator, first = two_blocks()
    allocator.free(first)

    (trace,) = snapshot(allocator)["device_traces"]

    assert [(e["action"], e["size"], e["user_metadata"]) for e in trace] == [
        ("segment_alloc", 2 * MIB, ""),
        ("alloc", 1000, "request 0"),
        ("alloc", 5000, "request 1"),
        ("free_requested", 1000, "request 0"),
        ("free_completed", 1000, "request 0"),
    ]
    assert [e["time_us"] for e in trace] == [1_000_000 + number for number in range(5)]
    assert [e["frames"][0]["line"] for e in trace] == [0, 0, 1, 0, 0]


def test_out_of_memory_has_no_address_but_what_the_device_had_left():
    allocator = Recorded(capacity_bytes=10 * MIB)
    allocator.log.request = 2
    with pytest.raises(Exception, match="out of memory"):
        allocator.allocate(20 * MIB)

    (oom,) = snapshot(allocator)["device_traces"][0]

    assert (oom["action"], oom["size"], oom["device_free"]) == ("oom", 20 * MIB, 10 * MIB)
    assert "addr" not in oom
    assert oom["frames"] is FRAMES[2]


@pytest.mark.parametrize("expandable", [False, True])
def test_addresses_of_events_and_blocks_are_one_and_the_same(expandable):
    allocator, _ = two_blocks(AllocatorSettings(expandable_segments=expandable))
    allocator.allocate(50 * MIB)

    made = snapshot(allocator)

    allocated = {e["addr"] for e in made["device_traces"][0] if e["action"] == "alloc"}
    blocks = {b["address"] for s in made["segments"] for b in s["blocks"] if b["state"] == "active_allocated"}
    assert allocated == blocks
    assert all(0 < address < 2**53 for address in allocated)  # exact in the viewer


def test_the_settings_are_written_as_pytorch_writes_them():
    settings = AllocatorSettings(
        max_split_size_bytes=64 * MIB, roundup_power2_divisions=(2,) * 15 + (4,), expandable_segments=True
    )

    made = snapshot(two_blocks(settings)[0], "expandable_segments:True")["allocator_settings"]

    assert made["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert (made["max_split_size"], made["expandable_segments"]) == (64 * MIB, True)
    assert made["roundup_power2_divisions"]["1"] == 2
    assert made["roundup_power2_divisions"]["32768"] == 4


def test_no_limit_on_splits_is_pytorchs_largest_number_as_it_is_signed():
    assert snapshot(two_blocks()[0])["allocator_settings"]["max_split_size"] == -1


def test_each_stack_is_in_the_pickle_once():
    allocator = Recorded()
    allocator.log.request = 1
    for _ in range(1000):
        allocator.free(allocator.allocate(1000))

    data = pickle.dumps(snapshot(allocator), protocol=4)

    assert data.count(b"file1.py") == 1
    assert len(data) < 3000 * 80
