"""Reads the lock file when a session begins, compares results with it, and updates it at the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..errors import UsageMistake
from ..results.lock import LOCK_FILE, UPDATE_COMMAND
from ..results.test_result import TestResult, with_lock
from .file import change_lock, read_lock
from .judging import Rules, is_lockable, lock_check
from .updating import lock_change, stale

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
        if self._rules.mode is None:
            return _named("no test with a budget for", stale(self._entries, collected))
        change = lock_change(results, self._entries, collected)
        if not change:
            return [f"{LOCK_FILE}: nothing to update"]
        try:
            change_lock(self._path, change.applied)
        except OSError as error:
            raise UsageMistake(
                f"{self._path}: cannot be written, so nothing was recorded: {error}"
            ) from error
        written, removed = len(change.written), len(change.removed)
        return [f"{LOCK_FILE}: {written} written, {removed} removed"]


def _named(what: str, nodeids: Collection[str]) -> list[str]:
    if not nodeids:
        return []
    names = ", ".join(sorted(nodeids)[:_NAMED])
    more = f" and {len(nodeids) - _NAMED} more" if len(nodeids) > _NAMED else ""
    return [f"{LOCK_FILE}: {what} {names}{more}; run {UPDATE_COMMAND}"]
