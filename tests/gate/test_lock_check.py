"""One test compared with its entry in the lock file: held to it, or why not, and what an update records."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.budget import Budget, parse_growth
from pytest_membudget.gate.lock_file import RAISE, UPDATE, Rules, lock_check
from pytest_membudget.memory_report import HeldMemory, MemoryReport
from pytest_membudget.results.comparison import Comparison, LockCheck, LockEntry
from pytest_membudget.results.test_result import TestResult, with_comparison, with_lock

MIB = 2**20
LOCKED = LockEntry(
    100 * MIB,
    "allocated",
    {"parameters": 60 * MIB, "activations": 40 * MIB},
    1,
    "H100-80GB",
    "stand-in",
    "2.13.0",
)
READ = Rules(parse_growth("1%"), "2.13.0", today="2026-11-21")
#: Written by hand: the test may take so much up to a day.
DAY = LockEntry(100 * MIB, until="2026-11-21", reason="until the fix")


def result(mib=100.0, *, verdict="unset", rank=0, held=None, **budget):
    size_bytes = int(mib * MIB)
    parts = {"parameters": 60 * MIB, "activations": size_bytes - 60 * MIB, "gradients": 0}
    peak = {"allocated": size_bytes}
    stays = HeldMemory(held * MIB) if held is not None else None
    reports = [MemoryReport("traced", "allocated", peak, parts, rank=rank, device="stand-in", held=stays)]
    return TestResult("a::b", "a:1", verdict, "why", budget=Budget(**budget), estimates=tuple(reports))


def check(mib, mode=None, entry=LOCKED, **budget):
    return lock_check(result(mib, **budget), entry, replace(READ, mode=mode))


@pytest.mark.parametrize(
    ("mib", "status", "verdict"),
    [
        (100, "unchanged", "within"),
        (101, "unchanged", "within"),  # 1% of 100 MiB
        (101 + 1 / MIB, "grown", "over"),
        (99, "unchanged", "within"),
        (99 - 1 / MIB, "shrunk", "within"),
    ],
)
def test_a_test_is_held_to_its_entry(mib, status, verdict):
    found = check(mib)

    assert (found.status, found.limit_bytes) == (status, 101 * MIB)
    assert with_lock(result(mib), found).verdict == verdict


def test_growth_says_what_grew_from_the_file_alone():
    locked = with_lock(result(110), check(110))

    assert locked.reason == (
        "takes 10.0 MiB (10.0%) more than its entry in membudget.lock.yaml: activations +10.0 MiB; "
        "if it may, run pytest --membudget --membudget-update=raise"
    )
    assert locked.details.splitlines() == [
        "What has changed since the lock file:",
        "  +10.0 MiB activations, from 40.0 MiB",
    ]
    assert (locked.limit_bytes, locked.exceeds) == (101 * MIB, True)


def test_of_several_ranks_the_one_that_takes_most_is_named():
    entry = replace(LOCKED, gpus=2)
    reason = lock_check(result(110, rank=1, gpus=2), entry, READ).reason

    assert reason.startswith("rank 1 of 2: takes 10.0 MiB")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("torch", "2.12.0", "its torch is 2.12.0, now 2.13.0"),
        ("gpu", "A100-80GB", "its gpu is A100-80GB, now H100-80GB"),
        ("device", "fake", "its device is fake, now stand-in"),
        ("gpus", 8, "its gpus is 8, now 1"),
        ("metric", "reserved", "its metric is reserved, now allocated"),
    ],
)
def test_figures_that_were_made_otherwise_are_not_compared(name, value, shown):
    found = check(500, entry=replace(LOCKED, **{name: value}))

    assert (found.status, found.limit_bytes) == ("not comparable", None)
    assert shown in found.reason
    assert with_lock(result(500), found).verdict == "unset"
    assert with_lock(result(500, verdict="within", gpu="H100-80GB"), found).verdict == "within"


def test_a_test_without_an_entry_is_still_unset_and_says_what_to_run():
    found = check(100, entry=None)

    assert found.status == "new"
    assert with_lock(result(), found).reason == (
        "why; no entry in membudget.lock.yaml; run pytest --membudget --membudget-update"
    )


@pytest.mark.parametrize(
    ("mode", "mib", "entry", "status"),
    [
        (UPDATE, 100, None, "recorded"),
        (UPDATE, 50, LOCKED, "recorded"),
        (UPDATE, 100 - 1 / MIB, LOCKED, "recorded"),  # lower figures, however little
        (UPDATE, 100, LOCKED, "unchanged"),
        (UPDATE, 101, LOCKED, "unchanged"),  # within the tolerance nothing is raised
        (UPDATE, 102, LOCKED, "grown"),
        (UPDATE, 100, replace(LOCKED, torch="2.12.0"), "recorded"),
        (UPDATE, 102, replace(LOCKED, torch="2.12.0"), "grown"),
        (RAISE, 101, LOCKED, "recorded"),
        (RAISE, 102, LOCKED, "recorded"),
        (RAISE, 50, LOCKED, "recorded"),
        (RAISE, 102, replace(LOCKED, torch="2.12.0"), "recorded"),
    ],
)
def test_an_update_raises_nothing_unless_it_is_asked_to(mode, mib, entry, status):
    found = check(mib, mode, entry)

    assert ("recorded" if found.recorded else found.status) == status
    if found.recorded:
        assert found.base.bytes == int(mib * MIB)
        assert found.base.components == {"parameters": 60 * MIB, "activations": int(mib * MIB) - 60 * MIB}
        assert with_lock(result(mib), found).verdict == "within"


def test_what_is_held_to_the_file():
    assert lock_check(result(), LOCKED, READ) is not None
    assert lock_check(result(verdict="within", gpu="A100-40GB"), LOCKED, READ) is not None
    assert lock_check(result(verdict="within", gib=1), LOCKED, READ) is None
    assert lock_check(result(verdict="over", components={"activations": 1}), LOCKED, READ) is None
    assert lock_check(replace(result(), estimates=()), LOCKED, READ) is None


def test_the_json_form_gives_the_same_value_back():
    for found in (check(110), check(100, entry=None), check(100), check(50, UPDATE), check(100, entry=DAY)):
        assert LockCheck.from_json(found.to_json()) == found


def held_check(before, now, mode=None):
    entry = replace(LOCKED, held_bytes=before if before is None else before * MIB)
    return lock_check(result(held=now), entry, replace(READ, mode=mode))


@pytest.mark.parametrize(
    ("before", "now", "mode", "status"),
    [
        (0, 64, None, "grown"),
        (100, 101, None, "unchanged"),  # 1%
        (100, 102, None, "grown"),
        (None, 64, None, "unchanged"),  # of a release that did not know
        (64, 0, None, "unchanged"),
        (64, 0, UPDATE, "recorded"),
        (None, 64, UPDATE, "recorded"),
        (0, 64, UPDATE, "grown"),
        (100, 101, UPDATE, "unchanged"),
        (0, 64, RAISE, "recorded"),
    ],
)
def test_what_stays_is_held_to_its_entry_too(before, now, mode, status):
    found = held_check(before, now, mode)

    assert ("recorded" if found.recorded else found.status) == status


def test_more_that_stays_says_how_much():
    assert held_check(0, 64).reason == (
        "holds 64.0 MiB more when its body ends than its entry in membudget.lock.yaml; "
        "if it may, run pytest --membudget --membudget-update=raise"
    )


@pytest.mark.parametrize(("mib", "verdict"), [(100, "undecided"), (110, "over")])
def test_an_undecided_test_is_held_to_its_entry_and_stays_undecided(mib, verdict):
    undecided = result(mib, verdict="undecided", gpu="H100-80GB")
    entry = replace(LOCKED, gpu="H100-80GB")

    assert with_lock(undecided, lock_check(undecided, entry, READ)).verdict == verdict


# Entries that hold up to a day


def for_a_while(mib, entry=DAY, verdict="over", mode=None, **more):
    made = result(mib, verdict=verdict, gib=0.05)
    return with_lock(made, lock_check(made, entry, replace(READ, mode=mode)))


def test_it_excuses_a_test_over_its_budget_up_to_its_size_and_to_its_last_day():
    found = for_a_while(100)

    assert (found.verdict, found.exceeds, found.excused_until) == ("over", False, "2026-11-21")
    assert found.lock.reason == "until the fix (up to 100.0 MiB until 2026-11-21)"


def test_when_the_day_is_over_it_excuses_nothing_and_says_so():
    found = for_a_while(100, replace(DAY, until="2026-11-20"))

    assert (found.exceeds, found.excused_until) == (True, None)
    assert found.reason.endswith("its entry in membudget.lock.yaml (until the fix) held until 2026-11-20")


def test_above_its_size_it_excuses_nothing_and_says_by_how_much():
    found = for_a_while(102)

    assert found.exceeds
    assert found.reason.endswith("2.0 MiB more than its entry in membudget.lock.yaml allows until 2026-11-21")


def test_growth_since_the_base_is_excused_too():
    grown = with_comparison(for_a_while(100, verdict="within"), Comparison("grown", "more", allowed=False))

    assert (grown.exceeds, grown.excused_until) == (False, "2026-11-21")


@pytest.mark.parametrize("verdict", ["within", "skipped"])
def test_a_test_that_needs_no_excuse_keeps_its_verdict(verdict):
    assert for_a_while(100, verdict=verdict).verdict == verdict
    assert for_a_while(102, verdict="within").verdict == "within"  # of its budget, which is larger


@pytest.mark.parametrize(
    ("mib", "until", "verdict"),
    [(100, "2026-11-21", "within"), (102, "2026-11-21", "over"), (100, "2026-11-20", "over")],
)
def test_a_test_without_gib_has_nothing_but_its_entry(mib, until, verdict):
    made = result(mib)
    found = with_lock(made, lock_check(made, replace(DAY, until=until), READ))

    assert (found.verdict, found.exceeds) == (verdict, verdict == "over")


def test_an_update_leaves_it_and_raising_replaces_it():
    made = result(50)

    assert not lock_check(made, DAY, replace(READ, mode=UPDATE)).recorded
    assert lock_check(made, DAY, replace(READ, mode=RAISE)).base.until is None
    assert not for_a_while(100, mode=RAISE).lock.recorded  # it has a gib, and no other entry


def test_a_report_with_such_an_entry_is_read():
    found = for_a_while(100).lock

    assert LockCheck.from_json(found.to_json(), checked=True) == found
