"""``*.membudget.yaml`` as pytest collects it: each entry, and each point of its grid, is a test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.node_ids import key_of, nodeid_of
from ..errors import UsageMistake
from ..names import MARKER, WORKER

if TYPE_CHECKING:
    from .job import Job
    from .jobs import Scenario
    from .reading import Entry


@dataclass(frozen=True, slots=True)
class ScenarioTest(MarkedTest):
    """A scenario that formulas compute."""

    job: Job = field(kw_only=True)


class ScenarioFile(pytest.File):
    """One ``*.membudget.yaml``."""

    def collect(self) -> Iterator[EntryItem]:
        """Its tests. A file that is not YAML or has no budgets fails here; a bad budget fails its test."""
        from .grid import points_of
        from .reading import read_entries
        from .schema import SCRIPT

        try:
            entries = read_entries(self.path, self.shown)
        except UsageMistake as error:
            raise self.CollectError(str(error)) from None
        for entry in entries:
            kind = ScriptItem if entry.table is SCRIPT else ScenarioItem
            for point in points_of(entry):
                yield kind.from_parent(self, name=point.name, entry=point)

    @property
    def shown(self) -> str:
        """Its path as messages write it."""
        return os.path.relpath(self.path, self.config.rootpath).replace(os.sep, "/")


class EntryItem(pytest.Item):
    """One entry at one point of its grid; in a worker the program that it is run as."""

    def __init__(self, *, entry: Entry, **rest: Any) -> None:
        super().__init__(**rest)
        self.entry = entry
        self.add_marker(getattr(pytest.mark, MARKER)())

    def marked_test(self, defaults: Mapping[str, Any]) -> MarkedTest:
        """The ``MarkedTest`` of this item; ``defaults`` are those of the settings."""
        try:
            return self._read(defaults)
        except UsageMistake as error:
            return MarkedTest(**self._ids, budget=None, mistake=str(error))

    def _read(self, defaults: Mapping[str, Any]) -> MarkedTest:
        """The same. Raises ``UsageMistake``."""
        raise NotImplementedError

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Its place in its file."""
        return self.path, self.entry.node.line - 1, self.name

    @property
    def _ids(self) -> dict[str, Any]:
        assert isinstance(self.parent, ScenarioFile)
        ids = {"nodeid": nodeid_of(self), "key": key_of(self), "path": str(self.path)}
        return {**ids, "file": self.parent.shown, "line": self.entry.node.line}

    def runtest(self) -> None:
        """Run the program; outside of a worker nothing runs."""
        if not self.config.pluginmanager.hasplugin(WORKER):
            pytest.skip("is a budget of a program; run pytest with --membudget to check it")
        from .scripts import run_program

        program = self._read({}).program
        assert program is not None, "a worker runs programs alone"
        run_program(program)


class ScenarioItem(EntryItem):
    """A job that a recipe runs, or formulas compute."""

    def _scenario(self, defaults: Mapping[str, Any]) -> Scenario:
        from .jobs import read_scenario

        return read_scenario(self.entry, self.path.parent, defaults)

    def _read(self, defaults: Mapping[str, Any]) -> MarkedTest:
        scenario = self._scenario(defaults)
        if scenario.program is None:
            return ScenarioTest(**self._ids, budget=scenario.budget, has_body=False, job=scenario.job)
        return MarkedTest(**self._ids, budget=scenario.budget, program=scenario.program)

    def what_now(self, limit_bytes: int, figure_bytes: int) -> str:
        """What would bring it from ``figure_bytes``, run or by formulas, to its limit: by formulas."""
        from ..formulas.changes import what_now

        return what_now(self._scenario({}).job, limit_bytes, figure_bytes)


class ScriptItem(EntryItem):
    """A program of the user's."""

    def _read(self, defaults: Mapping[str, Any]) -> MarkedTest:
        from .scripts import read_script

        program, budget = read_script(self.entry, self.path.parent, defaults)
        return MarkedTest(**self._ids, budget=budget, program=program, names_gpus="gpus" in self.entry.fields)
