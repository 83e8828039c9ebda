"""``membudget bisect``: its command line and what it prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from ...budgets.budget import Growth, parse_growth
from ...comparison.base.git import history_between
from ...errors import UsageMistake
from ...reporting.terminal.fitting import terminal_width
from ..sessions import report_of_session
from ..terminal import Subcommands, print_lines
from .points import (
    BAD,
    GOOD,
    SKIP,
    Figures,
    Found,
    Points,
    figure_lines,
    figures_in,
    first_bad,
    step_lines,
)

#: Exit status where nothing has grown, or the point cannot be named.
_NOT_FOUND = 1


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``bisect``."""
    parser = commands.add_parser(
        "bisect",
        help="find the first commit, or release of a package, with which a test takes more memory",
        description="Find the first commit, or release of a package, with which a test takes more memory.",
        epilog="What follows -- is pytest's: the tests, and options.",
    )
    parser.set_defaults(run=_run, runs_pytest=True)
    parser.add_argument("good", metavar="GOOD", help="a commit, or a release as in transformers==4.48.0")
    parser.add_argument("bad", metavar="BAD", help="a later commit, HEAD or before it; or another release")
    parser.add_argument(
        "--tolerance",
        type=_growth,
        default=parse_growth("1%"),
        metavar="GROWTH",
        help="what a test may take more than at GOOD, as max_growth has it (default 1%%)",
    )


def _growth(text: str) -> Growth:
    try:
        return parse_growth(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(options: argparse.Namespace) -> int:
    points = _points(options.good, options.bad)
    return Bisection(points, options.pytest_arguments, options.tolerance).run()


def _points(good: str, bad: str) -> Points:
    if "==" in good or "==" in bad:
        from .releases import releases_between  # packaging is pytest's dependency, and no other command's

        return releases_between(good, bad)
    commits = history_between(Path.cwd(), good, bad)
    names = [f"{commit[:10]} {subject}" for commit, subject in commits]
    return Points("commit", names, lambda number: nullcontext(commits[number][0]))


class Bisection:
    """Tries points, and prints each as it is tried."""

    def __init__(self, points: Points, arguments: Sequence[str], tolerance: Growth) -> None:
        self._points = points
        self._arguments = arguments
        self._tolerance = tolerance
        self._figures: dict[int, Figures] = {}
        self._tests: Collection[str] = ()

    def run(self) -> int:
        """The exit status: 0 if one point was found."""
        names, what = self._points.names, self._points.what
        last = len(names) - 1
        if last < 1:
            raise UsageMistake(f"GOOD and BAD are the same {what}: {names[0]}")
        tries = math.ceil(math.log2(last)) if last > 1 else 0
        print_lines([f"{last} {what}s after the good one, about {tries} to try between the ends"])
        good, bad = self._tried(0, GOOD), self._tried(last, BAD)
        both = [test for test in bad.compared if test in good.compared]
        self._tests = self._grown(bad, good, both)
        if not self._tests:
            print_lines([f"nothing to find: no test takes more at {names[last]}"])
            return _NOT_FOUND
        found = first_bad(last + 1, lambda number: self._state(self._tried(number)))
        print_lines(self._conclusion(found))
        return 0 if found.is_one_step else _NOT_FOUND

    def _tried(self, number: int, known: str = "") -> Figures:
        """The figures of a point; ``known``: the state of one of the ends, which needs figures."""
        name = self._points.names[number]
        try:
            with self._points.base(number) as base:
                found = figures_in(report_of_session([*self._arguments, f"--membudget-compare={base}"]))
        except OSError as error:
            if known:
                raise UsageMistake(f"{name}: {error}") from None
            found = Figures({}, dict.fromkeys(self._tests, str(error)))
        self._figures[number] = found
        tests, good = self._tests or [*found.compared, *found.missing], self._figures[0]
        lines = [f"      {line}" for line in figure_lines(found, good, tests)]
        print_lines([f"{known or self._state(found):<5} {name}", *lines])
        if known and not found.compared:
            raise UsageMistake(f"{name}: no test has a figure there, see above")
        return found

    def _state(self, figures: Figures) -> str:
        """``bad`` if a test has grown, ``skip`` if one has no figure, else ``good``."""
        if self._grown(figures, self._figures[0], self._tests):
            return BAD
        return SKIP if any(test not in figures.compared for test in self._tests) else GOOD

    def _grown(self, figures: Figures, before: Figures, tests: Collection[str]) -> list[str]:
        known = (test for test in tests if test in figures.compared)
        sizes = ((test, before.bytes_of(test), figures.bytes_of(test)) for test in known)
        return [test for test, old, new in sizes if new - old > self._tolerance.allowed_bytes(old)]

    def _conclusion(self, found: Found) -> Iterator[str]:
        names, what = self._points.names, self._points.what
        before, after = self._figures[found.good], self._figures[found.bad]
        if found.is_one_step:
            yield f"\nfirst {what} that takes more: {names[found.bad]}"
        else:
            between = ", ".join(names[found.good + 1 : found.bad + 1])
            yield f"\nthe first {what} that takes more is one of: {between}"
        tests = self._grown(after, before, self._tests)
        for line in figure_lines(after, before, tests):
            yield f"  {line.replace('the good end', names[found.good])}"
        for test in tests:
            yield f"\n{names[found.good]} to {names[found.bad]}, {test}:"
            yield from step_lines(before.compared[test], after.compared[test], terminal_width())
