"""The points of a bisection: their figures, and the search for the first at which a test takes more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from ...reporting.causes import change_lines, signed_size
from ...reporting.document.document import Document
from ...results.comparison import Comparison, growth_text
from ...units import gib_text

GOOD: Final = "good"
BAD: Final = "bad"
SKIP: Final = "skip"


@dataclass(frozen=True, slots=True)
class Points:
    """The commits or the releases of a bisection, the good end first."""

    what: str
    """``commit`` or ``release``."""
    names: Sequence[str]
    """For people."""
    base: Callable[[int], AbstractContextManager[str]]
    """What ``--membudget-compare`` takes for a point. Raises ``OSError`` if it cannot be had."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What tests take at a point: comparisons of the working tree with it, and why there are none."""

    compared: Mapping[str, Comparison]
    missing: Mapping[str, str]

    def bytes_of(self, test: str) -> int:
        """The peak of a test there."""
        return self.compared[test].base_bytes or 0


def figures_in(document: Document) -> Figures:
    """The figures of a session that compared with a point."""
    compared, missing = {}, {}
    for result in document.tests:
        comparison = result.comparison
        if comparison is not None and comparison.base_bytes is not None:
            compared[result.nodeid] = comparison
        else:
            missing[result.nodeid] = comparison.reason if comparison is not None else result.reason
    return Figures(compared, missing)


def figure_lines(figures: Figures, good: Figures, tests: Collection[str]) -> list[str]:
    """What each of ``tests`` takes at a point, in a line each, compared with the good end."""
    lines = []
    for test in tests:
        if test not in figures.compared:
            lines.append(f"{test}: no figure: {figures.missing.get(test, 'there is no such test')}")
            continue
        size_bytes = figures.bytes_of(test)
        since = ""
        if test in good.compared and size_bytes != good.bytes_of(test):
            growth = growth_text(size_bytes - good.bytes_of(test), good.bytes_of(test))
            since = f", {growth.removeprefix('takes ').replace('at the base', 'at the good end')}"
        lines.append(f"{test}: {gib_text(size_bytes)}{since}")
    return lines


def step_lines(before: Comparison, after: Comparison, width: int) -> list[str]:
    """What has grown between two points.

    Each point was compared with the working tree. Where ``after`` takes what the working tree takes, the
    findings of ``before`` are those of the step; otherwise the components that have changed are listed.
    """
    if after.base_bytes == before.head_bytes:
        return change_lines(before, width)
    old, new = before.base_components or {}, after.base_components or {}
    changes = {name: new.get(name, 0) - old.get(name, 0) for name in {**old, **new}}
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))
    return [f"  {signed_size(size):>12}  {name}" for name, size in largest if size]


@dataclass(frozen=True, slots=True)
class Found:
    """Two points, by their numbers, between which the figure grew."""

    good: int
    bad: int

    @property
    def is_one_step(self) -> bool:
        """Whether ``bad`` is the first bad point; else those between the two have no figure."""
        return self.bad - self.good == 1


def first_bad(count: int, state_of: Callable[[int], str]) -> Found:
    """Search ``count`` points, of which the first is good and the last is bad.

    ``state_of(number)`` is ``good``, ``bad`` or ``skip``, and is called once for each point that is tried. A
    point that is skipped is never taken for good: its neighbours are tried. If figures go up and down, the
    result is one of the steps up.
    """
    good, bad, skipped = 0, count - 1, set[int]()
    while True:
        left = [number for number in range(good + 1, bad) if number not in skipped]
        if not left:
            return Found(good, bad)
        middle = min(left, key=lambda number: abs(2 * number - good - bad))
        state = state_of(middle)
        if state == SKIP:
            skipped.add(middle)
        elif state == GOOD:
            good = middle
        else:
            bad = middle
