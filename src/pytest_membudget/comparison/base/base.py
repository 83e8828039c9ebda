"""What is known of the base of a comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...reporting.document import Document
from ...reporting.files.json_file import alloc_conf_of, installed_distributions, installed_version
from ...results.comparison import VersionChange
from ...results.test_result import TestResult


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report was made with; None where it does not say."""

    torch: str | None = None
    alloc_conf: str | None = None
    """The allocator's settings as the environment has them; empty for none."""
    distributions: Mapping[str, str] | None = None
    """The versions of what is installed, by name."""

    def version_changes(self, head: Facts) -> tuple[VersionChange, ...]:
        """What ``head`` has installed in other versions; nothing where one of both does not say."""
        ours, theirs = head.distributions, self.distributions
        if ours is None or theirs is None:
            return ()
        return tuple(
            VersionChange(name, theirs.get(name), ours.get(name))
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        )


@dataclass(frozen=True, slots=True)
class Base:
    """The base's results by node id, and what is missing of it."""

    results: Mapping[str, TestResult] = field(default_factory=dict)
    facts: Facts = Facts()
    trouble: str = ""
    """Why nothing can be compared with it, in a line; empty if something can."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Why files or folders of its tests could not be collected, by node id."""
    removed: tuple[str, ...] = ()
    """Tests with budgets there that the head does not have."""

    def trouble_of(self, nodeid: str) -> str:
        """Why the test ``nodeid`` cannot be looked for there; empty if it can."""
        if self.trouble:
            return self.trouble
        for path, reason in self.errors.items():
            if nodeid == path or nodeid.startswith((f"{path}::", f"{path}/")):
                return f"the base's {path} could not be collected: {reason}"
        return ""


def base_of_run(result: Mapping[str, Any]) -> Base:
    """The base as its run reported it."""
    if result.get("trouble"):
        return Base(trouble=f"the base could not be estimated: {result['trouble']}")
    if result["foreign"]:
        name, file = next(iter(result["foreign"].items()))
        return Base(
            trouble=f"the base's run imported {name} from the head's checkout ({file}), so its figures "
            "are not the base's own"
        )
    return Base(
        results={row["nodeid"]: TestResult.from_json(row) for row in result["rows"]},
        facts=own_facts(),
        errors=result["errors"],
        removed=tuple(result["removed"]),
    )


def base_of_document(document: Document) -> Base:
    """The base that a stored report is."""
    return Base(
        results={result.nodeid: result for result in document.tests},
        facts=Facts(document.torch_version, document.alloc_conf, document.distributions),
    )


def own_facts() -> Facts:
    """What this session's figures are made with."""
    return Facts(installed_version("torch"), alloc_conf_of(os.environ), installed_distributions())
