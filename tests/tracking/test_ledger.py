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


def test_blocks_count_as_allocated_while_they_are_alive(ledger):
    record = Record(1000, "aten::empty", Phase.FORWARD, 1024)
    ledger.born(1, record)
    assert ledger.allocated_bytes == 1024
    ledger.died(1)
    assert ledger.allocated_bytes == 0


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


def test_the_live_ones_are_known_by_their_key(ledger):
    born(ledger, 1, 100)
    second = born(ledger, 2, 100)
    ledger.died(1)
    assert ledger.live == {2: second}


def test_a_key_can_be_used_again_after_a_death(ledger):
    first = born(ledger, 1, 100)
    ledger.died(1)
    second = born(ledger, 1, 200)
    assert ledger.live == {1: second}
    assert first.death < second.birth


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


def test_a_live_storage_has_no_death(ledger):
    assert born(ledger, 1, 100).death is None


def totals(peak):
    return peak.allocated_bytes, peak.reserved_bytes


def test_the_peak_has_the_totals_of_its_moment(ledger):
    born(ledger, 1, 1024, reserves=2 * MIB)
    born(ledger, 2, 512)
    ledger.died(1)
    assert totals(ledger.allocated_peak) == (1024 + 512, 2 * MIB)


def test_before_any_birth_nothing_is_alive_at_a_peak_of_nothing(ledger):
    assert totals(ledger.allocated_peak) == (0, 0)
    assert list(ledger.alive_at(ledger.allocated_peak)) == []


def test_those_alive_at_the_peak_are_known_after_all_have_died(ledger):
    first, second = born(ledger, 1, 1000), born(ledger, 2, 1000)
    ledger.died(2)
    ledger.died(1)
    assert set(ledger.alive_at(ledger.allocated_peak)) == {first, second}


def test_one_that_died_before_the_peak_was_not_alive_at_it(ledger):
    born(ledger, 1, 1000)
    ledger.died(1)
    born(ledger, 2, 512)
    third = born(ledger, 3, 1024)
    assert third in ledger.alive_at(ledger.allocated_peak)
    assert {record.requested_bytes for record in ledger.alive_at(ledger.allocated_peak)} == {512, 1024}


def test_one_born_after_the_peak_was_not_alive_at_it(ledger):
    first = born(ledger, 1, 2048)
    ledger.died(1)
    born(ledger, 2, 1024)
    assert list(ledger.alive_at(ledger.allocated_peak)) == [first]


def test_one_born_and_dead_after_the_peak_was_not_alive_at_it(ledger):
    first = born(ledger, 1, 2048)
    ledger.died(1)
    born(ledger, 2, 1024)
    ledger.died(2)
    assert list(ledger.alive_at(ledger.allocated_peak)) == [first]


def test_a_total_reached_again_is_no_new_peak(ledger):
    first = born(ledger, 1, 1024)
    ledger.died(1)
    born(ledger, 2, 1024)
    assert list(ledger.alive_at(ledger.allocated_peak)) == [first]


def test_a_higher_peak_forgets_the_dead_of_the_lower_one(ledger):
    born(ledger, 1, 1024)
    ledger.died(1)
    second = born(ledger, 2, 2048)
    assert list(ledger.alive_at(ledger.allocated_peak)) == [second]


def test_reserved_may_peak_after_allocated(ledger):
    first, second = (born(ledger, key, 12 * MIB, reserves=12 * MIB) for key in (1, 2))
    ledger.died(1)
    ledger.died(2)
    third = born(ledger, 3, 14 * MIB, reserves=14 * MIB)
    assert totals(ledger.allocated_peak) == (24 * MIB, 24 * MIB)
    assert set(ledger.alive_at(ledger.allocated_peak)) == {first, second}
    assert totals(ledger.reserved_peak) == (14 * MIB, 38 * MIB)
    assert list(ledger.alive_at(ledger.reserved_peak)) == [third]


def test_allocated_may_peak_after_reserved(ledger):
    first = born(ledger, 1, 1024, reserves=2 * MIB)
    second = born(ledger, 2, 1024)
    assert list(ledger.alive_at(ledger.reserved_peak)) == [first]
    assert list(ledger.alive_at(ledger.allocated_peak)) == [first, second]


def test_reserved_peaks_with_memory_that_no_block_got(ledger):
    first = born(ledger, 1, 1024, reserves=2 * MIB)
    ledger.reserve(0, 20 * MIB)  # and a further page could not be had
    ledger.reserve(0, -20 * MIB)
    assert totals(ledger.reserved_peak) == (1024, 22 * MIB)
    assert list(ledger.alive_at(ledger.reserved_peak)) == [first]


def test_a_reserved_total_reached_again_is_no_new_peak(ledger):
    first = born(ledger, 1, 1024, reserves=2 * MIB)
    ledger.died(1)
    ledger.reserve(1024 * MIB, -2 * MIB)
    born(ledger, 2, 512, reserves=2 * MIB)
    assert list(ledger.alive_at(ledger.reserved_peak)) == [first]
