"""The live storages over time, and who was alive at the peaks."""

import pytest

from pytest_membudget.tracking.ledger import HostLedger, Ledger
from pytest_membudget.tracking.record import Phase, Record

MIB = 1_048_576


@pytest.fixture
def ledger():
    return Ledger()


def born(ledger, key, block_bytes, reserves=0):
    """A storage in a block that it fills, for which memory may be reserved first."""
    if reserves:
        ledger.reserve(key * 1024 * MIB, reserves)
    record = Record(block_bytes, "aten::empty", Phase.FORWARD, block_bytes)
    ledger.born(key, record)
    return record


def test_a_block_that_had_another_size_all_along_counts_with_that(ledger):
    record = born(ledger, 1, 4096)
    ledger.resize(1, 1024)
    ledger.resize(7, 1024)  # nobody's
    assert (ledger.allocated_bytes, record.block_bytes) == (1024, 1024)
    ledger.died(1)
    assert ledger.allocated_bytes == 0


def test_of_the_host_what_is_allocated_is_reserved():
    ledger = HostLedger()
    ledger.born(1, Record(1000, "aten::empty", Phase.FORWARD))
    ledger.died(1)
    ledger.born(2, Record(600, "aten::empty", Phase.FORWARD))
    assert (ledger.allocated_bytes, ledger.reserved_bytes) == (600, 600)
    assert totals(ledger.reserved_peak) == totals(ledger.allocated_peak) == (1000, 1000)


def test_a_key_can_be_used_again_after_a_death(ledger):
    first = born(ledger, 1, 100)
    ledger.died(1)
    second = born(ledger, 1, 200)
    assert ledger.live == {1: second}
    assert first.death < second.birth
    assert second.death is None


def test_births_deaths_marks_and_ends_of_calls_are_in_one_order(ledger):
    record = born(ledger, 1, 100)
    ledger.mark()
    ledger.end_root_call(7)
    ledger.died(1)
    assert (record.birth, ledger.marks, ledger.root_call_ends, record.death) == (
        1,
        [2],
        {7: 3},
        4,
    )


def totals(peak):
    return peak.allocated_bytes, peak.reserved_bytes


LATER = [(1, 12 * MIB, 12 * MIB), (2, 12 * MIB, 12 * MIB), -1, -2, (3, 14 * MIB, 14 * MIB)]
#: Births, by key with bytes and what is reserved first, deaths by key, and what is reserved for nobody (by
#: address); who was alive at the peak, and its totals.
ALLOCATED = {
    "before any birth": ([], [], (0, 0)),
    "the totals of its moment": ([(1, 1024, 2 * MIB), (2, 512), -1], [1, 2], (1536, 2 * MIB)),
    "known after all have died": ([(1, 1000), (2, 1000), -2, -1], [1, 2], (2000, 0)),
    "one had died before": ([(1, 1000), -1, (2, 512), (3, 1024)], [2, 3], (1536, 0)),
    "one is born after": ([(1, 2048), -1, (2, 1024)], [1], (2048, 0)),
    "one is born and dies after": ([(1, 2048), -1, (2, 1024), -2], [1], (2048, 0)),
    "a total reached again is no new one": ([(1, 1024), -1, (2, 1024)], [1], (1024, 0)),
    "a higher one forgets the dead": ([(1, 1024), -1, (2, 2048)], [2], (2048, 0)),
    "before that of reserved": (LATER, [1, 2], (24 * MIB, 24 * MIB)),
    "after that of reserved": ([(1, 1024, 2 * MIB), (2, 1024)], [1, 2], (2048, 2 * MIB)),
}
RESERVED = {
    "after that of allocated": (LATER, [3], (14 * MIB, 38 * MIB)),
    "before that of allocated": ([(1, 1024, 2 * MIB), (2, 1024)], [1], (1024, 2 * MIB)),
    # a further page could not be had
    "memory that no block got": ([(1, 1024, 2 * MIB), {0: 20 * MIB}, {0: -20 * MIB}], [1], (1024, 22 * MIB)),
    "a total reached again is no new one": (
        [(1, 1024, 2 * MIB), -1, {1024 * MIB: -2 * MIB}, (2, 512, 2 * MIB)], [1], (1024, 2 * MIB)
    ),
}  # fmt: skip


def played(ledger, events):
    """The records by their keys."""
    records = {}
    for event in events:
        if isinstance(event, tuple):
            records[event[0]] = born(ledger, *event)
        elif isinstance(event, dict):
            ledger.reserve(*next(iter(event.items())))
        else:
            ledger.died(-event)
    return records


@pytest.mark.parametrize(
    ("metric", "name"),
    [*(("allocated", name) for name in ALLOCATED), *(("reserved", name) for name in RESERVED)],
)
def test_a_peak_has_those_alive_at_its_moment_and_its_totals(ledger, metric, name):
    events, alive, bytes_ = {"allocated": ALLOCATED, "reserved": RESERVED}[metric][name]
    records = played(ledger, events)
    peak = getattr(ledger, f"{metric}_peak")

    by_birth = sorted(ledger.alive_at(peak), key=lambda one: one.birth)
    assert by_birth == [records[key] for key in alive]
    assert totals(peak) == bytes_
