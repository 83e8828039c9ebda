"""Two histories side by side, with sizes small enough to follow by hand; all of the large pool."""

from dataclasses import replace

from benchmarks.history_comparison import Allocation, differences, sides
from pytest_membudget.allocator.history import (
    ACTIVE_ALLOCATED,
    INACTIVE,
    AllocatorSettings,
    BlockState,
    DeviceHistory,
    HistoryEvent,
    SegmentState,
)

MIB = 2**20
LINE = [{"filename": "/r/m/model.py", "line": 5, "name": "forward"}]
NODE = [{"filename": "??", "line": 0, "name": "torch::autograd::generated::MulBackward0::apply()"}]
PLACE = "m/model.py:5"


def snapshot(*requests):
    """Requests (MiB, frames, freed at once) from an empty allocator, each in a segment of its own."""
    events = []
    segments = []
    address = 0
    for mib, stack, freed in requests:
        address += 1024 * MIB
        made = ["segment_alloc", "alloc", *(["free_requested", "free_completed"] if freed else [])]
        events += [HistoryEvent(action, address, mib * MIB, frames=stack) for action in made]
        block = BlockState(address, mib * MIB, mib * MIB, INACTIVE if freed else ACTIVE_ALLOCATED)
        segments.append(SegmentState(address, mib * MIB, False, (block,)))
    return DeviceHistory(tuple(events), tuple(segments), AllocatorSettings())


def test_what_both_have_is_no_difference():
    first, second = sides(snapshot((20, LINE, False)), snapshot((20, LINE, False)))

    assert first.requests == {Allocation(PLACE, 20 * MIB): 1}
    assert differences(first.requests, second.requests, {}) == []


def test_a_request_that_only_one_has_is_listed_with_place_and_count():
    first, second = sides(
        snapshot((20, LINE, False), (30, LINE, True), (40, LINE, True)), snapshot((20, LINE, False))
    )

    larger, smaller = differences(first.requests, second.requests, {})

    assert (larger.allocation, larger.first_count, larger.second_count) == (Allocation(PLACE, 40 * MIB), 1, 0)
    assert (larger.bytes, smaller.bytes) == (-40 * MIB, -30 * MIB)


def test_what_is_held_at_the_peak_leaves_out_what_was_freed_before_and_made_after():
    side, _ = sides(
        snapshot((20, LINE, True), (60, LINE, False), (30, LINE, True), (22, LINE, True)),
        snapshot((20, LINE, False)),
    )

    assert side.peak_requested_bytes == 90 * MIB
    assert side.held == {Allocation(PLACE, 60 * MIB): 1, Allocation(PLACE, 30 * MIB): 1}


def test_the_peak_of_what_is_reserved_counts_whole_segments():
    side, _ = sides(snapshot((20, LINE, True), (60, LINE, False)), snapshot((20, LINE, False)))

    assert side.peak_reserved_bytes == 80 * MIB


def test_memory_of_before_the_history_counts():
    """The window has the second request, and the free of the first: 60 MiB and 20 MiB at its peak."""
    whole = snapshot((20, LINE, False), (60, LINE, False))
    freed = HistoryEvent("free_requested", 1024 * MIB, 20 * MIB)
    first, second = whole.segments
    after = replace(first, blocks=(replace(first.blocks[0], state=INACTIVE),))
    window = replace(whole, events=(*whole.events[2:], freed), segments=(after, second))

    side, _ = sides(window, window)

    assert (side.peak_requested_bytes, side.peak_reserved_bytes) == (80 * MIB, 80 * MIB)
    assert side.held == {Allocation(PLACE, 60 * MIB): 1}


def test_nodes_distinguish_backward_where_both_name_them():
    first, _ = sides(snapshot((20, NODE, True)), snapshot((20, NODE, True)))

    assert list(first.requests) == [Allocation("MulBackward0", 20 * MIB)]


def test_backward_is_one_place_where_one_has_no_nodes():
    """A history recorded with stacks="python"."""
    first, second = sides(snapshot((20, NODE, True)), snapshot((20, [], True)))

    assert list(first.requests) == list(second.requests) == [Allocation("backward", 20 * MIB)]


def test_an_operator_is_shown_where_one_of_them_names_it():
    named = [{"filename": "??", "line": 0, "name": "aten::mm"}, *LINE]
    first, second = sides(snapshot((20, named, False)), snapshot((24, LINE, False)))

    (_, row) = differences(first.requests, second.requests, first.operators)

    assert (row.operator, row.allocation.size_bytes) == ("aten::mm", 20 * MIB)


def test_a_history_equals_itself():
    one = snapshot((20, LINE, False), (30, NODE, True))
    first, second = sides(one, one)

    assert first == second
