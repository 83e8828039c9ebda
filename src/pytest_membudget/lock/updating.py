"""What a session changes in the lock file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..results.lock import RECORDED, LockEntry
from ..results.test_result import TestResult


@dataclass(frozen=True, slots=True)
class LockChange:
    """Entries to write and to remove, by node id. Others in the file stay as they are."""

    written: Mapping[str, LockEntry]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)

    def applied(self, entries: Mapping[str, LockEntry]) -> dict[str, LockEntry]:
        """``entries`` with the change."""
        kept = {nodeid: entry for nodeid, entry in entries.items() if nodeid not in self.removed}
        return {**kept, **self.written}


def lock_change(
    results: Iterable[TestResult], entries: Mapping[str, LockEntry], collected: Collection[str] | None
) -> LockChange:
    """What ``results`` change in ``entries``.

    ``collected``: all tests with budgets; None if the session has not collected all.
    """
    results = list(results)
    with_gib = {one.nodeid for one in results if one.budget is not None and one.budget.gib is not None}
    written = {
        one.nodeid: one.lock.entry
        for one in results
        if one.lock is not None and one.lock.status == RECORDED and one.lock.entry is not None
    }
    return LockChange(written, tuple(sorted((with_gib & {*entries}) | stale(entries, collected))))


def stale(entries: Iterable[str], collected: Collection[str] | None) -> set[str]:
    """Entries whose tests no longer exist; empty where not all tests were collected."""
    return {nodeid for nodeid in entries if nodeid not in collected} if collected is not None else set()
