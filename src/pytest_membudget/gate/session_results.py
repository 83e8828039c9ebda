"""Which budgets a session had to check, and what became of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..budgets.verdict import ERROR, SKIPPED
from ..results.test_result import TestResult

EXPECTED = "expected"
NOT_RUN = "not run"


class SessionResults:
    """The results by test, and the tests that have none yet."""

    def __init__(self) -> None:
        self._results: dict[str, TestResult] = {}
        self._planned: dict[str, None] = {}
        self._settled: set[str] = set()
        self._modules: dict[str, str] = {}

    def plan(self, nodeids: Iterable[str]) -> None:
        """These tests have budgets and are going to run."""
        self._planned.update(dict.fromkeys(nodeids))

    def estimated(self, result: TestResult) -> None:
        """The estimate is known; the test has not run yet."""
        self._results[result.nodeid] = result

    def settled(self, result: TestResult, *, expected: bool) -> None:
        """The test has passed or failed; ``expected``: an xfail mark expects the failure."""
        self._results[result.nodeid] = replace(result, expected=expected)
        self._settled.add(result.nodeid)

    def in_order(self) -> list[TestResult]:
        """The results in the order of the session; with pytest-xdist they arrive in another."""
        known = self._results
        return [known[nodeid] for nodeid in {**self._planned, **known} if nodeid in known]

    def module_skipped(self, result: TestResult) -> None:
        """A whole file with budgets was skipped when it was imported; ``result`` fails if that does."""
        self._modules[result.nodeid] = result.reason
        if result.verdict == ERROR:
            self.settled(result, expected=False)

    def refused_modules(self) -> dict[str, str]:
        """Of skipped files those that fail, and why."""
        return {nodeid: why for nodeid, why in self._modules.items() if nodeid in self._results}

    def failing(self) -> list[TestResult]:
        """The results that make the build fail."""
        return [
            result
            for result in self.in_order()
            if (result.verdict == ERROR or result.exceeds) and not result.expected
        ]

    def planned(self) -> list[str]:
        """The tests that have budgets and were going to run."""
        return list(self._planned)

    def not_run(self) -> list[str]:
        """The tests that were to run and have neither passed nor failed nor been skipped."""
        return [nodeid for nodeid in self._planned if nodeid not in self._settled]

    def unchecked(self) -> dict[str, str]:
        """Why a budget was not checked though nothing failed, by test or file."""
        skipped = {
            nodeid: result.reason for nodeid, result in self._results.items() if result.verdict == SKIPPED
        }
        return {**skipped, **self._modules}

    def notes(self) -> dict[str, str]:
        """What there is to say of a verdict, by test."""
        expected = [nodeid for nodeid, result in self._results.items() if result.expected]
        return {**dict.fromkeys(self.not_run(), NOT_RUN), **dict.fromkeys(expected, EXPECTED)}
