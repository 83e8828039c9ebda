"""Scenario files as pytest collects them: each budget, and each point of its grid, is a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..budgets.marked_test import MarkedTest
from ..budgets.node_ids import key_of, nodeid_of
from ..errors import UsageMistake
from ..names import MARKER

if TYPE_CHECKING:
    from .grid import Point
    from .jobs import ScenarioReader


@dataclass(frozen=True, slots=True)
class ScenarioTest(MarkedTest):
    """A scenario as a test with a budget."""

    point: Point = field(kw_only=True)
    reader: ScenarioReader = field(kw_only=True)


class ScenarioFile(pytest.File):
    """One ``*.membudget.yaml``."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Its tests. A file that is not YAML or has no budgets fails here; a bad budget fails its test."""
        from .grid import points_of
        from .reading import read_entries

        try:
            entries = read_entries(self.path, self.shown)
        except UsageMistake as error:
            raise self.CollectError(str(error)) from None
        for entry in entries:
            for point in points_of(entry):
                yield ScenarioItem.from_parent(self, name=point.id, point=point)

    @property
    def shown(self) -> str:
        """Its path as messages write it."""
        return os.path.relpath(self.path, self.config.rootpath).replace(os.sep, "/")

    @cached_property
    def reader(self) -> ScenarioReader:
        """Makes jobs of the file's budgets."""
        from .jobs import ScenarioReader

        return ScenarioReader(Path(self.path).parent)


class ScenarioItem(pytest.Item):
    """One budget at one point of its grid. It has no body, and passes or fails by its estimate."""

    def __init__(self, *, point: Point, **rest: Any) -> None:
        super().__init__(**rest)
        self.point = point
        self.add_marker(getattr(pytest.mark, MARKER)())

    def runtest(self) -> None:
        """Never called: the gate passes or fails it by its estimate."""
        pytest.skip("is an analytic budget; run pytest with --membudget to check it")

    @property
    def marked_test(self) -> ScenarioTest:
        """The ``MarkedTest`` of this item; its budget is read when it is estimated."""
        assert isinstance(self.parent, ScenarioFile)
        return ScenarioTest(
            nodeid=nodeid_of(self),
            key=key_of(self),
            path=str(self.path),
            file=self.parent.shown,
            line=self.line,
            budget=None,
            has_body=False,
            point=self.point,
            reader=self.parent.reader,
        )

    @property
    def line(self) -> int:
        """The line of its budget."""
        return self.point.node.line

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Its place in its file."""
        return self.path, self.line - 1, self.name
