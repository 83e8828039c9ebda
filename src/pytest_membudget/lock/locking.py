"""Reads the lock file when a session begins, compares results with it, and updates it at the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..errors import UsageMistake
from ..results.lock import LOCK_FILE, RECORDED, UPDATE_COMMAND
from ..results.test_result import TestResult, with_lock
from .file import change_lock, read_lock
from .judging import Rules, is_lockable, lock_check

#: Most node ids that a line names.
_NAMED = 3


class Locking:
    """Compares results with the lock file of a project, and collects what changes in it."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        """``folder``: of pyproject.toml. Raises ``UsageMistake`` if the file cannot be used."""
        self._path = folder / LOCK_FILE
        self._rules = rules
        entries = read_lock(self._path)
        self._is_on = entries is not None or rules.mode is not None
        self._entries = entries or {}

    def check(self, result: TestResult) -> TestResult:
        """``result`` with its comparison, if the project has a lock file or this session writes one."""
        if not self._is_on or not is_lockable(result):
            return result
        return with_lock(result, lock_check(result, self._entries.get(result.nodeid), self._rules))

    def finish(self, results: Sequence[TestResult], collected: Collection[str] | None) -> list[str]:
        """Update the file with ``--membudget-update``, and return lines for the summary.

        ``collected``: all tests with budgets; None if the session has not collected all. Raises
        ``UsageMistake`` if the file could not be written.
        """
        entries = self._entries
        stale = {nodeid for nodeid in entries if collected is not None and nodeid not in collected}
        if self._rules.mode is None:
            return _lines_of(stale)
        recorded = {one.nodeid: one.lock.entry for one in results if one.lock and one.lock.status == RECORDED}
        written = {nodeid: entry for nodeid, entry in recorded.items() if entry is not None}
        with_gib = {one.nodeid for one in results if one.budget is not None and one.budget.gib is not None}
        removed = stale | (with_gib & {*entries})
        if not (written or removed):
            return [f"{LOCK_FILE}: nothing to update"]
        try:
            change_lock(self._path, written, removed)
        except OSError as error:
            raise UsageMistake(
                f"{self._path}: cannot be written, so nothing was recorded: {error}"
            ) from error
        return [f"{LOCK_FILE}: {len(written)} written, {len(removed)} removed"]


def _lines_of(stale: Collection[str]) -> list[str]:
    """The line on entries whose tests no longer exist."""
    if not stale:
        return []
    names = ", ".join(sorted(stale)[:_NAMED])
    more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
    return [f"{LOCK_FILE}: no test with a budget for {names}{more}; run {UPDATE_COMMAND}"]
