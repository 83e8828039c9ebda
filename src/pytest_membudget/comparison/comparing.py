"""A session's comparison: with a git reference, a stored report, or waivers alone."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..allocator.settings import VARIABLES
from ..budgets.verdict import ERROR, SKIPPED
from ..errors import UsageMistake
from ..reporting.json_file import installed_version
from ..reporting.rows import Row, peak_bytes
from ..reporting.statuses import NOT_COMPARABLE
from .base import Base, Facts, base_of_document
from .base_run import BaseRun, Invocation
from .exchange import Exchange
from .findings import findings
from .git import OPTION, BaseCommit, find_base
from .head_run import head_of
from .verdicts import Standing, standing_of, with_waiver
from .waivers import Waiver, unused_waivers, waiver_for

_SUFFIX = ".json"
#: Seconds that a base's session gets on top of the time limits of its tests.
_START = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be compared with."""

    text: str = ""
    """As it was asked for; empty: waivers alone."""
    stored: Base | None = None
    commit: BaseCommit | None = None
    waivers: tuple[Waiver, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there is a base."""
        return self.stored is not None or self.commit is not None


def plan_for(text: str | None, start: Path, root: Path, waivers: tuple[Waiver, ...]) -> Plan:
    """The plan for ``--membudget-compare=text``, given in the folder ``start`` to a session in ``root``.

    Raises ``UsageMistake`` with what to do: no such report or reference, or none that can be used.
    """
    if text is None:
        return Plan(waivers=waivers)
    if not text.strip():
        raise UsageMistake(f"{OPTION}=: write a git reference, as in {OPTION}=origin/main, or a report.json")
    if text.endswith(_SUFFIX):
        return Plan(text, stored=_stored(start / text), waivers=waivers)
    return Plan(text, commit=find_base(root, text), waivers=waivers)


def _stored(path: Path) -> Base:
    from ..reporting.document import read_document

    try:
        return base_of_document(read_document(path))
    except UsageMistake as error:
        raise UsageMistake(f"{OPTION}: {error}") from None


class Comparing:
    """Gives rows their ``comparison``; the process that owns the base's run ends it too."""

    def __init__(
        self, plan: Plan, invocation: Invocation, timeout: float, *, shared: str | None, is_owner: bool
    ) -> None:
        """``shared``: the exchange's folder, in a worker of pytest-xdist. ``timeout``: seconds a test."""
        self.plan = plan
        self._timeout = timeout
        self._today = datetime.date.today()
        self._tests = 0
        self._base = plan.stored
        self._run = BaseRun(plan.commit, invocation) if plan.commit is not None and is_owner else None
        if self._run is not None:
            self._exchange: Exchange | None = self._run.exchange
        else:
            self._exchange = Exchange(Path(shared)) if shared is not None else None
        self.notes: list[str] = []

    @property
    def folder(self) -> str | None:
        """The exchange's folder, for workers of pytest-xdist."""
        return str(self._exchange.folder) if self._exchange is not None else None

    def tell_head(self, selected: Sequence[str], collected: Iterable[str]) -> None:
        """These tests with budgets are going to run, of those that were collected."""
        self._tests = len(selected)
        if self.plan.commit is None or self._exchange is None or not selected:
            return
        if self._exchange.folder.is_dir():  # which a worker on another machine does not see
            self._exchange.write_head(head_of(selected, collected, self.plan.commit.top))

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Start the base's run, if there is something to run; only its owner has one to start."""
        head = self._exchange.head() if self._exchange is not None else None
        if self._run is not None and head is not None:
            self._tests = len(head["selected"])
            self._run.begin({**head, **asked})

    def compare(self, row: Row) -> None:
        """Give ``row`` its comparison, if there is something to say; waits for the base's run."""
        row["comparison"] = None
        if row["verdict"] in (ERROR, SKIPPED):
            return
        standing = None
        if self.plan.is_on:
            base = self._known_base()
            beside = base.rows.get(row["nodeid"])
            trouble = base.trouble_of(row["nodeid"]) if beside is None else ""
            standing = standing_of(row, beside, (own_facts(os.environ), base.facts), trouble)
        waiver = waiver_for(row["nodeid"], self.plan.waivers)
        standing = with_waiver(standing, row, waiver, self._today)
        if standing is None:
            return
        row["comparison"] = _comparison(standing)
        if standing.status == NOT_COMPARABLE and _is_of_growth_alone(row):
            row["verdict"], row["reason"] = SKIPPED, f"not compared: {standing.reason}"

    def document(self, rows: Sequence[Row], *, is_whole: bool, tells_removed: bool) -> dict[str, Any] | None:
        """What report.json says of the comparison as a whole; None without one."""
        if not self.plan.is_on and not self.plan.waivers:
            return None
        commit = self.plan.commit
        base = self._base_so_far()
        removed = base.removed if tells_removed else ()
        if self.plan.stored is not None and is_whole:
            known = {row["nodeid"] for row in rows}
            removed = tuple(nodeid for nodeid in self.plan.stored.rows if nodeid not in known)
        return {
            "base": {"ref": self.plan.text, "commit": commit.commit if commit is not None else None},
            "removed": list(removed),
            "unused_waivers": unused_waivers(self.plan.waivers, rows, self._today, is_whole=is_whole),
        }

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
        """What is known of the base; a session that is interrupted does not wait for the rest."""
        if self._base is not None or self._exchange is None:
            return self._base or Base()
        result = self._exchange.result()
        return _base_of(result) if result is not None else Base()

    def _awaited(self) -> Base:
        assert self._exchange is not None
        result = self._exchange.wait(_START + self._timeout * (self._tests + 1))
        if result is None:
            return Base(trouble=f"the base could not be estimated: {self._exchange.complaint()}")
        return _base_of(result)


def _base_of(result: Mapping[str, Any]) -> Base:
    """The base as its run has told it."""
    if result.get("trouble"):
        return Base(trouble=f"the base could not be estimated: {result['trouble']}")
    if result["foreign"]:
        name, file = next(iter(result["foreign"].items()))
        return Base(
            trouble=f"the base's run imported {name} from the head's checkout ({file}), so its figures "
            "are not the base's own"
        )
    return Base(
        rows={row["nodeid"]: row for row in result["rows"]},
        facts=own_facts(os.environ),
        errors=result["errors"],
        removed=tuple(result["removed"]),
    )


def _is_of_growth_alone(row: Row) -> bool:
    """Whether nothing but the comparison checks the test."""
    budget = row["budget"] or {}
    limits = [budget.get(name) for name in ("gib", "gpu", "host_gib", "components")]
    return budget.get("max_growth") is not None and not any(limits)


def own_facts(environment: Mapping[str, str]) -> Facts:
    """What this session's figures are made with."""
    return Facts(installed_version("torch"), alloc_conf_of(environment))


def alloc_conf_of(environment: Mapping[str, str]) -> str:
    """The allocator's settings as PyTorch would read them; empty for none."""
    return next((environment[name] for name in VARIABLES if environment.get(name)), "")


def _comparison(standing: Standing) -> dict[str, Any]:
    base, head = standing.base, standing.head
    return {
        "status": standing.status,
        "reason": standing.reason,
        "base_bytes": _peak(base),
        "head_bytes": _peak(head),
        "growth_bytes": standing.growth_bytes,
        "suggested_gib": standing.suggested_gib,
        "findings": findings(head, base) if head is not None and base is not None else [],
        "base_components": dict(base["components"]) if base is not None else None,
        "base_timeline": base.get("timeline") if base is not None else None,
    }


def _peak(figure: Mapping[str, Any] | None) -> int | None:
    return peak_bytes(figure) if figure is not None else None


def compared_notices(comparison: Mapping[str, Any] | None) -> list[str]:
    """Lines on removed tests and unused waivers."""
    if comparison is None:
        return []
    removed = [f"removed since the base: {nodeid}" for nodeid in comparison["removed"]]
    unused = [f"unused waiver: {entry['test']}: {entry['reason']}" for entry in comparison["unused_waivers"]]
    return [*removed, *unused]
