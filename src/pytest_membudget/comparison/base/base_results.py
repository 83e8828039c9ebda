"""The results that a session is compared with: those of a run, or of a stored report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...budgets.verdict import SKIPPED
from ...json_object import JsonObject
from ...reporting.document import Document
from ...reporting.files.json_file import alloc_conf_of, installed_distributions, installed_version
from ...results.comparison import VersionChange
from ...results.test_result import TestResult

_OWN: Final = "pytest-membudget"


@dataclass(frozen=True, slots=True)
class Facts(JsonObject):
    """What figures were made with; None if the report does not say."""

    torch: str | None = None
    alloc_conf: str | None = None
    """The allocator's settings in the environment; empty for none."""
    distributions: Mapping[str, str] | None = None
    """The versions of installed distributions, by name."""
    is_environment: bool = False
    """Of another environment: another torch is a change as of any other distribution."""

    def version_changes(self, head: Facts) -> tuple[VersionChange, ...]:
        """Distributions that ``head`` has in other versions, then those that only one of the two has.

        Empty if one of the two does not say.
        """
        ours, theirs = head.distributions, self.distributions
        if ours is None or theirs is None:
            return ()
        # in another environment this package runs too, whichever version is installed there
        same = {_OWN} if self.is_environment else set()
        changes = [
            VersionChange(name, theirs.get(name), ours.get(name))
            for name in sorted({*ours, *theirs} - same)
            if ours.get(name) != theirs.get(name)
        ]
        return tuple(sorted(changes, key=lambda change: change.base is None or change.head is None))


@dataclass(frozen=True, slots=True)
class Base(JsonObject):
    """The base's results by node id, and what could not be collected."""

    results: Mapping[str, TestResult] = field(default_factory=dict)
    facts: Facts = Facts()
    trouble: str = ""
    """Why nothing can be compared with it, in one line; else empty."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Why files or folders of its tests could not be collected, by node id."""
    removed: tuple[str, ...] = ()
    """Node ids of the base's tests with budgets that the head does not have."""

    def newly_skipped(self, results: Iterable[TestResult]) -> tuple[str, ...]:
        """Those of ``results`` that are skipped and have a figure here."""
        skipped = [result.nodeid for result in results if result.verdict == SKIPPED]
        return tuple(
            name for name in skipped if name in self.results and self.results[name].figure is not None
        )

    def trouble_of(self, nodeid: str) -> str:
        """Why it is not known whether the base has the test ``nodeid``; empty if it is."""
        if self.trouble:
            return self.trouble
        for path, reason in self.errors.items():
            if nodeid == path or nodeid.startswith((f"{path}::", f"{path}/")):
                return f"the base's {path} could not be collected: {reason}"
        return ""


def base_without_figures(why: str) -> Base:
    """A base that could not be run."""
    return Base(trouble=f"the base could not be estimated: {why}")


def base_of_document(document: Document) -> Base:
    """The base of a stored report."""
    return Base(
        results={result.nodeid: result for result in document.tests},
        facts=Facts(document.torch.version, document.torch.alloc_conf, document.distributions),
    )


def own_facts() -> Facts:
    """What the figures of this session are made with."""
    return Facts(installed_version("torch"), alloc_conf_of(os.environ), installed_distributions())
