"""Results of the marked tests of a session, and which tests have no result."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..budgets.verdict import ERROR, NO_MEMORY
from ..results.test_result import TestResult
from .xdist import End

#: Most tests that a line names.
_NAMED = 20


class SessionResults:
    """Results by node id, and the node ids that have no result yet."""

    def __init__(self) -> None:
        self._results: dict[str, TestResult] = {}
        #: node ids of the tests with budgets that were to run
        self.planned: dict[str, None] = {}
        self._settled: set[str] = set()
        #: failures that were not reported as such, by node id
        self._turned: dict[str, str] = {}
        #: why files with budgets skipped themselves on import
        self.skipped_files: dict[str, str] = {}

    def plan(self, nodeids: Iterable[str]) -> None:
        """Record tests with budgets that will run."""
        self.planned.update(dict.fromkeys(nodeids))

    def estimated(self, result: TestResult) -> None:
        """Record the estimate of a test that has not passed or failed yet."""
        self._results[result.nodeid] = result

    def settled(self, result: TestResult, *, expected: bool, outcome: str = "failed") -> None:
        """Record that the test has passed or failed. ``expected``: an xfail mark expects the failure.

        ``outcome``: pytest's, which a hook may have changed.
        """
        result = self._results[result.nodeid] = replace(result, expected=expected)
        self._settled.add(result.nodeid)
        self._turned.pop(result.nodeid, None)
        if result.fails and outcome != "failed":
            self._turned[result.nodeid] = outcome

    def in_order(self) -> list[TestResult]:
        """The results in collection order; with pytest-xdist they arrive in another.

        Tests that take no GPU memory, and have no mark, are counted only.
        """
        known = {nodeid: one for nodeid, one in self._results.items() if one.verdict != NO_MEMORY}
        return [known[nodeid] for nodeid in {**self.planned, **known} if nodeid in known]

    def file_skipped(self, result: TestResult) -> None:
        """Record a file with budgets that skips itself on import; ``result`` says whether that fails."""
        self.skipped_files[result.nodeid] = result.reason
        if result.verdict == ERROR:
            self.settled(result, expected=False)

    def unchecked(self, ends: Sequence[End]) -> list[str]:
        """Messages on budgets that something in the session has kept from failing it."""
        turned = [
            f"{nodeid}: {self._results[nodeid].verdict}, and a hook or plugin has it reported as {outcome}: "
            f"{self._results[nodeid].reason_line}"
            for nodeid, outcome in self._turned.items()
        ]
        unmarked = [
            f"{nodeid}: its budget was not checked: its mark was there when the test was collected, and was "
            "taken away; deselect the test, or leave the mark"
            for nodeid in dict.fromkeys(nodeid for end in ends for nodeid in end.unmarked)
        ]
        by_function: dict[str, dict[str, None]] = {}
        for nodeid in (nodeid for end in ends for nodeid in end.uncollected):
            by_function.setdefault(nodeid.partition("[")[0], {})[nodeid] = None
        hidden = [
            f"{first}{f' and {len(others)} more of its parameters' if others else ''}: its budget was not "
            "checked: the test exists only where torch.cuda.is_available(); define it on every machine: "
            "estimates need no GPU"
            for first, *others in by_function.values()
        ]
        return [*turned, *unmarked, *hidden]

    def forgotten(self, ends: Sequence[End], *, is_whole: bool) -> list[str]:
        """Messages on budgets without a result. ``is_whole``: the session collects all tests."""
        modules = [f"{path}: {why}" for path, why in self.skipped_files.items() if path in self._results]
        not_run = [
            f"{nodeid}: its budget was not checked: the session ended without a report of the test"
            for nodeid in self.not_run()
        ]
        unmatched = [
            f"[tool.membudget] tests: {pattern!r} matches no test; write the path of a file or folder "
            "from pyproject.toml, or a node id, as in tests = ['tests/train/*']"
            for pattern in ends[-1].unmatched  # all collect the same tests
        ]
        return [*modules, *not_run, *(unmatched if is_whole else ())]

    def unfinished(self) -> list[str]:
        """A message on the tests that an interrupted session has not come to, or not finished."""
        names = self.not_run()
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return [f"interrupted: not finished: {', '.join(names[:_NAMED])}{more}"] if names else []

    def failing(self) -> list[TestResult]:
        """The results that make the build fail."""
        return [result for result in self.in_order() if result.fails]

    def without_memory(self) -> list[str]:
        """Node ids of selected tests that take no GPU memory."""
        return [nodeid for nodeid, result in self._results.items() if result.verdict == NO_MEMORY]

    def not_run(self) -> list[str]:
        """Node ids of the tests that were to run and have neither passed, failed nor been skipped."""
        return [nodeid for nodeid in self.planned if nodeid not in self._settled]
