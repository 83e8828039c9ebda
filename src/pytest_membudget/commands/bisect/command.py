"""``membudget bisect``: its command line and what it prints."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ...budgets.growth import Growth, parse_growth
from ...errors import UsageMistake
from ...reporting.terminal.fitting import terminal_width
from ..arguments import Subcommands
from ..sessions import report_of_session
from ..terminal import print_lines
from .commits import commits_between
from .points import Figures, Points, figure_lines, figures_in, grown, state, step_lines, without_figures
from .search import BAD, GOOD, Found, first_bad

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
    return Bisection(points, options.pytest_arguments, options.tolerance, _show).run()


def _show(text: str) -> None:
    print_lines([text])


def _points(good: str, bad: str) -> Points:
    if "==" in good or "==" in bad:
        from .releases import releases_between  # packaging is pytest's dependency, and no other command's

        return releases_between(good, bad)
    return commits_between(Path.cwd(), good, bad)


class Bisection:
    """Tries points, and prints each as it is tried."""

    def __init__(
        self,
        points: Points,
        arguments: Sequence[str],
        tolerance: Growth,
        show: Callable[[str], object],
    ) -> None:
        self._points = points
        self._arguments = arguments
        self._tolerance = tolerance
        self._show = show
        self._figures: dict[int, Figures] = {}
        self._tests: Collection[str] = ()

    def run(self) -> int:
        """The exit status: 0 if one point was found."""
        last = len(self._points.names) - 1
        if last < 1:
            raise UsageMistake(f"GOOD and BAD are the same {self._points.what}: {self._points.names[0]}")
        tries = math.ceil(math.log2(last)) if last > 1 else 0
        self._show(f"{last} {self._points.what}s after the good one, about {tries} to try between the ends")
        good, bad = self._tried(0, GOOD), self._tried(last, BAD)
        self._tests = grown(
            bad, good, self._tolerance, [test for test in bad.compared if test in good.compared]
        )
        if not self._tests:
            self._show(f"nothing to find: no test takes more at {self._points.names[last]}")
            return _NOT_FOUND
        found = first_bad(last + 1, self._state)
        self._conclude(found)
        return 0 if found.is_one_step else _NOT_FOUND

    def _tried(self, number: int, known: str = "") -> Figures:
        """The figures of a point; ``known``: the state of one of the ends, which needs figures."""
        try:
            with self._points.base(number) as base:
                found = figures_in(report_of_session([*self._arguments, f"--membudget-compare={base}"]))
        except OSError as error:
            found = without_figures(str(error), self._tests)
            if known:
                raise UsageMistake(f"{self._points.names[number]}: {error}") from None
        self._figures[number] = found
        tests = self._tests or [*found.compared, *found.missing]
        good = self._figures[0]
        self._print(
            known or state(found, good, self._tolerance, tests), number, figure_lines(found, good, tests)
        )
        if known and not found.compared:
            raise UsageMistake(f"{self._points.names[number]}: no test has a figure there, see above")
        return found

    def _state(self, number: int) -> str:
        return state(self._tried(number), self._figures[0], self._tolerance, self._tests)

    def _print(self, known: str, number: int, lines: Sequence[str]) -> None:
        self._show(f"{known:<5} {self._points.names[number]}")
        for line in lines:
            self._show(f"      {line}")

    def _conclude(self, found: Found) -> None:
        names, before = self._points.names, self._figures[found.good]
        if found.is_one_step:
            self._show(f"\nfirst {self._points.what} that takes more: {names[found.bad]}")
        else:
            between = ", ".join(names[number] for number in range(found.good + 1, found.bad + 1))
            self._show(f"\nthe first {self._points.what} that takes more is one of: {between}")
        tests = grown(self._figures[found.bad], before, self._tolerance, self._tests)
        for line in figure_lines(self._figures[found.bad], before, tests):
            self._show(f"  {line.replace('the good end', names[found.good])}")
        for test in tests:
            self._show(f"\n{names[found.good]} to {names[found.bad]}, {test}:")
            after = self._figures[found.bad].compared[test]
            for line in step_lines(before.compared[test], after, terminal_width()):
                self._show(line)
