"""Compares a session's results with a commit, an environment or a stored report."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..budgets.verdict import ERROR, NO_MEMORY, SKIPPED
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult, with_comparison
from ..worker.time_limit import LONGEST
from .base.exchange import Base, Exchange, Facts, Head, base_without_figures, own_facts
from .base.invocation import Invocation
from .base.run import BaseRun
from .base.sources import BaseSource, EnvironmentSource, Source, StoredReport
from .places import import_roots
from .verdicts import compared

#: Seconds for the base's session in addition to the time limits of its tests.
_START = 120.0


class Comparing:
    """Compares results with the base. The process that starts the base's run also ends it."""

    def __init__(
        self,
        source: Source | None,
        invocation: Invocation | None = None,
        timeout: float = 0.0,
        *,
        facts: Callable[[], Facts] = own_facts,
    ) -> None:
        """``invocation``: of the session, unless the base is a stored report. ``timeout``: seconds a test.

        ``facts``: those of the head.
        """
        self.source = source
        self._timeout = timeout
        self._tests = 0
        self._base = source.base if isinstance(source, StoredReport) else None
        self._run: BaseRun | None = None
        self._facts = facts
        self._exchange: Exchange | None = None
        if invocation is not None and isinstance(source, BaseSource):
            if invocation.exchange is None:  # this process is no worker of pytest-xdist
                self._run = BaseRun(source, invocation)
                self._exchange = self._run.exchange
            else:
                self._exchange = Exchange(Path(invocation.exchange))
        self.notes = self._run.notes if self._run is not None else []

    @property
    def folder(self) -> str | None:
        """The exchange's folder, for workers of pytest-xdist."""
        return str(self._exchange.folder) if self._exchange is not None else None

    def plan_head(self, selected: Sequence[str], collected: Iterable[str]) -> None:
        """Write for the base's run which tests with budgets run here, of those that were collected."""
        self._tests = len(selected)
        if isinstance(self.source, BaseSource) and self._exchange is not None and selected:
            if not self._exchange.folder.is_dir():  # a worker on another machine does not see the folder
                return
            roots = import_roots(sys.modules, str(self.source.top))
            self._exchange.write(Head(list(selected), list(collected), roots))

    def begin(self, files: Sequence[str] | None) -> None:
        """Start the base's run of ``files``, None for all; nothing in processes that do not own it."""
        head = self._exchange.read(Head) if self._exchange is not None else None
        if self._run is not None and head is not None:
            self._tests = len(head.selected)
            self._run.begin(replace(head, files=files))

    def compare(self, result: TestResult) -> TestResult:
        """``result`` with its comparison, if there is one; waits for the base's run."""
        if self.source is None or result.verdict in (ERROR, SKIPPED, NO_MEMORY):
            return result
        base = self._known(_START + LONGEST * self._timeout * (self._tests + 1))
        before = base.results.get(result.nodeid)
        trouble = base.trouble_of(result.nodeid) if before is None else ""
        return with_comparison(result, compared(result, before, (self._facts(), base.facts), trouble))

    def session(
        self, results: Sequence[TestResult], *, is_whole: bool, lists_removed: bool
    ) -> ComparedSession | None:
        """The comparison of the whole session; None without a base."""
        if self.source is None:
            return None
        base = self._known()  # an interrupted session does not wait for it
        removed = base.removed if lists_removed else ()
        if isinstance(self.source, StoredReport) and is_whole:
            known = {result.nodeid for result in results}
            removed = tuple(nodeid for nodeid in base.results if nodeid not in known)
        with_figures = {nodeid for nodeid, result in base.results.items() if result.figure is not None}
        skipped = (result.nodeid for result in results if result.verdict == SKIPPED)
        return ComparedSession(
            self.source.ref,
            self.source.commit,
            removed=removed,
            skipped=tuple(nodeid for nodeid in skipped if nodeid in with_figures),
            distributions=base.facts.version_changes(self._facts()),
        )

    def close(self) -> None:
        """End the base's run, and remove its worktree."""
        if self._run is not None:
            self._run.close()

    def _known(self, seconds: float = 0.0) -> Base:
        """The base's results, after waiting for at most so many ``seconds``."""
        if self._base is None and self._exchange is not None:
            found = self._exchange.wait(seconds)
            if found is not None:
                is_environment = isinstance(self.source, EnvironmentSource)
                facts = replace(found.facts, is_environment=True) if is_environment else own_facts()
                self._base = replace(found, facts=facts)
            elif seconds:
                self._base = base_without_figures(self._exchange.complaint())
        return self._base or Base()
