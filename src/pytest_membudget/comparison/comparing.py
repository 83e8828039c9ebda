"""Compares a session's results with a commit, an environment or a stored report, and applies waivers."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..budgets.settings import Waiver
from ..budgets.verdict import ERROR, NO_MEMORY, SKIPPED
from ..errors import UsageMistake
from ..results.comparison import ComparedSession
from ..results.test_result import TestResult, with_comparison
from ..worker.time_limit import LONGEST
from .base.base_results import Base, base_of_document, base_of_run, own_facts
from .base.commit_source import CommitSource
from .base.environment_source import PREFIX, EnvironmentSource, find_environment
from .base.exchange import Exchange
from .base.git import OPTION, find_base
from .base.head_run import head_of
from .base.run import BaseRun
from .base.source import BaseSource, Invocation
from .strictness import strictly
from .verdicts import compared, with_waiver
from .waivers import unused_waivers, waiver_for

_SUFFIX = ".json"
#: Seconds for the base's session in addition to the time limits of its tests.
_START = 120.0


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """What the session is compared with."""

    text: str = ""
    """The text of ``--membudget-compare``; empty if there are waivers alone."""
    stored: Base | None = None
    source: BaseSource | None = None
    """What is estimated for it."""
    waivers: tuple[Waiver, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there is a base."""
        return self.stored is not None or self.source is not None

    @property
    def shown(self) -> str:
        """The base, for people; empty without one."""
        return self.source.shown if self.source is not None else self.text

    @property
    def is_environment(self) -> bool:
        """Whether other distributions are what is compared."""
        return isinstance(self.source, EnvironmentSource)


def plan_for(text: str | None, start: Path, root: Path, waivers: tuple[Waiver, ...]) -> ComparisonPlan:
    """The plan for ``--membudget-compare=text``; ``start``: the folder of the command line.

    Raises ``UsageMistake`` with what to do: no such report or reference, or none that can be used.
    """
    if text is None:
        return ComparisonPlan(waivers=waivers)
    if not text.strip():
        raise UsageMistake(
            f"{OPTION}=: write a git reference, as in {OPTION}=origin/main, a report.json, or "
            f"{PREFIX} and the interpreter of another environment"
        )
    if text.startswith(PREFIX):
        return ComparisonPlan(text, source=find_environment(text, start, root), waivers=waivers)
    if text.endswith(_SUFFIX):
        return ComparisonPlan(text, stored=_stored(start / text), waivers=waivers)
    return ComparisonPlan(text, source=CommitSource(find_base(root, text)), waivers=waivers)


def _stored(path: Path) -> Base:
    from ..reporting.document.reading import read_document

    try:
        return base_of_document(read_document(path))
    except UsageMistake as error:
        raise UsageMistake(f"{OPTION}: {error}") from None


class Comparing:
    """Compares results with the base. The process that starts the base's run also ends it."""

    def __init__(
        self,
        plan: ComparisonPlan,
        invocation: Invocation,
        timeout: float,
        *,
        shared: str | None,
        is_owner: bool,
    ) -> None:
        """``shared``: the exchange's folder, in a worker of pytest-xdist. ``timeout``: seconds a test."""
        self.plan = plan
        self._timeout = timeout
        self._today = datetime.date.today()
        self._tests = 0
        self._base = plan.stored
        self._run = BaseRun(plan.source, invocation) if plan.source is not None and is_owner else None
        if self._run is not None:
            self._exchange: Exchange | None = self._run.exchange
        else:
            self._exchange = Exchange(Path(shared)) if shared is not None else None
        self.notes: list[str] = []

    @property
    def folder(self) -> str | None:
        """The exchange's folder, for workers of pytest-xdist."""
        return str(self._exchange.folder) if self._exchange is not None else None

    def plan_head(self, selected: Sequence[str], collected: Iterable[str]) -> None:
        """Write for the base's run which tests with budgets run here, of those that were collected."""
        self._tests = len(selected)
        if self.plan.source is None or self._exchange is None or not selected:
            return
        if self._exchange.folder.is_dir():  # a worker on another machine does not see the folder
            self._exchange.write_head(head_of(selected, collected, self.plan.source.top))

    def begin(self, files: Sequence[str] | None) -> None:
        """Start the base's run of ``files``, None for all; nothing in processes that do not own it."""
        head = self._exchange.head() if self._exchange is not None else None
        if self._run is not None and head is not None:
            self._tests = len(head["selected"])
            self._run.begin({**head, "files": files})

    def compare(self, result: TestResult) -> TestResult:
        """``result`` with its comparison, if there is one; waits for the base's run."""
        if result.verdict in (ERROR, SKIPPED, NO_MEMORY):
            return result
        comparison = None
        if self.plan.is_on:
            base = self._known_base()
            before = base.results.get(result.nodeid)
            trouble = base.trouble_of(result.nodeid) if before is None else ""
            comparison = compared(result, before, (own_facts(), base.facts), trouble)
        waiver = waiver_for(result.nodeid, self.plan.waivers)
        return with_comparison(result, with_waiver(comparison, result, waiver, self._today))

    def strictly(self, result: TestResult) -> TestResult:
        """``result`` with ``--membudget-strict`` applied: an error if it would pass unchecked."""
        return strictly(result, waiver_for(result.nodeid, self.plan.waivers), self._today)

    def session(
        self, results: Sequence[TestResult], *, is_whole: bool, lists_removed: bool
    ) -> ComparedSession | None:
        """The comparison of the whole session; None without a base and waivers."""
        if not self.plan.is_on and not self.plan.waivers:
            return None
        source = self.plan.source
        base = self._base_so_far()
        removed = base.removed if lists_removed else ()
        if self.plan.stored is not None and is_whole:
            known = {result.nodeid for result in results}
            removed = tuple(nodeid for nodeid in self.plan.stored.results if nodeid not in known)
        return ComparedSession(
            ref=self.plan.text,
            commit=source.commit if source is not None else None,
            removed=removed,
            skipped=base.newly_skipped(results),
            unused_waivers=unused_waivers(self.plan.waivers, results, self._today, is_whole=is_whole),
            distributions=base.facts.version_changes(own_facts()),
        )

    def close(self) -> None:
        """End the base's run, and remove its worktree."""
        if self._run is not None:
            self.notes += self._run.notes
            self._run.close()
            self._run = None

    def _known_base(self) -> Base:
        if self._base is None:
            self._base = self._awaited()
        return self._base

    def _base_so_far(self) -> Base:
        """The base's results; an interrupted session does not wait for them."""
        if self._base is not None or self._exchange is None:
            return self._base or Base()
        result = self._exchange.result()
        return self._base_of(result) if result is not None else Base()

    def _awaited(self) -> Base:
        assert self._exchange is not None
        result = self._exchange.wait(_START + LONGEST * self._timeout * (self._tests + 1))
        if result is None:
            return Base(trouble=f"the base could not be estimated: {self._exchange.complaint()}")
        return self._base_of(result)

    def _base_of(self, result: Mapping[str, Any]) -> Base:
        return base_of_run(result, is_environment=self.plan.is_environment)
