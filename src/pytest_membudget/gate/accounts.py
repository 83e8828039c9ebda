"""Which budgets a session had to check, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable

from ..budgets.verdict import ERROR, SKIPPED
from ..reporting.rows import Row, exceeds

EXPECTED = "expected"
NOT_RUN = "not run"


class Accounts:
    """Rows by test, and the tests that none has come for."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self._planned: dict[str, None] = {}
        self._settled: set[str] = set()
        self._expected: set[str] = set()
        self._modules: dict[str, str] = {}

    def plan(self, nodeids: Iterable[str]) -> None:
        """These tests have budgets and are going to run."""
        self._planned.update(dict.fromkeys(nodeids))

    def estimated(self, row: Row) -> None:
        """``row`` is known; its test has not run yet."""
        self.rows[row["nodeid"]] = row

    def settled(self, row: Row, *, expected: bool) -> None:
        """``row``'s test has passed or failed by it; ``expected``: an xfail mark expects the failure."""
        nodeid = row["nodeid"]
        row["expected"] = expected
        self.rows[nodeid] = row
        self._settled.add(nodeid)
        if expected:
            self._expected.add(nodeid)

    def in_order(self) -> list[Row]:
        """The rows in the order of the session; with pytest-xdist they come in another."""
        return [self.rows[nodeid] for nodeid in {**self._planned, **self.rows} if nodeid in self.rows]

    def module_skipped(self, nodeid: str, why: str) -> None:
        """A whole file with budgets was skipped when it was imported."""
        self._modules[nodeid] = why

    def failing(self) -> list[Row]:
        """The rows that no build may be green with."""
        return [
            row
            for row in self.in_order()
            if (row["verdict"] == ERROR or exceeds(row)) and row["nodeid"] not in self._expected
        ]

    def planned(self) -> list[str]:
        """The tests that have budgets and were going to run."""
        return list(self._planned)

    def not_run(self) -> list[str]:
        """The tests that were to run and have neither passed nor failed nor been skipped."""
        return [nodeid for nodeid in self._planned if nodeid not in self._settled]

    def unchecked(self) -> dict[str, str]:
        """Why a budget was not checked though nothing failed, by test or file."""
        skipped = {nodeid: row["reason"] for nodeid, row in self.rows.items() if row["verdict"] == SKIPPED}
        return {**skipped, **self._modules}

    def notes(self) -> dict[str, str]:
        """What there is to say of a verdict, by test."""
        return {**dict.fromkeys(self.not_run(), NOT_RUN), **dict.fromkeys(self._expected, EXPECTED)}
