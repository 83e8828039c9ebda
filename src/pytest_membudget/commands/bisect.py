"""``membudget bisect``: the first commit, or release of a package, with which tests take more memory."""

import argparse
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..budgets.budget import Growth, parse_growth
from ..comparison.base.git import history_between
from ..errors import UsageMistake
from ..reporting.causes import change_lines
from ..reporting.document import Document
from ..reporting.terminal.fitting import terminal_width
from ..results.comparison import NOT_COMPARABLE, Comparison, component_changes, growth_text
from ..units import gib_text, signed_size
from .sessions import report_of_session
from .terminal import Subcommands, print_lines

GOOD: Final = "good"
BAD: Final = "bad"
SKIP: Final = "skip"
#: What tests take at a point: comparisons of the working tree with it, some of them without a figure.
Figures = Mapping[str, Comparison]
#: Exit status where nothing has grown, or the point cannot be named.
_NOT_FOUND = 1


@dataclass(frozen=True, slots=True)
class Points:
    """The commits or the releases of a bisection, the good end first."""

    what: str
    """``commit`` or ``release``."""
    names: Sequence[str]
    """For people."""
    base: Callable[[int], AbstractContextManager[str]]
    """What ``--membudget-compare`` takes for a point. Raises ``OSError`` if it cannot be had."""


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
        from .releases import installed, releases_between  # packaging is no other command's dependency

        releases = releases_between(good, bad)
        names = [release.replace("==", " ") for release in releases]
        return Points("release", names, lambda number: installed(releases[number]))
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
        self._tests = self._grown(bad, good, bad)
        if not self._tests:
            print_lines([f"nothing to find: no test takes more at {names[last]}"])
            return _NOT_FOUND
        before, after = first_bad(last + 1, lambda number: self._state(self._tried(number)))
        print_lines(self._conclusion(before, after))
        return 0 if after - before == 1 else _NOT_FOUND

    def _tried(self, number: int, known: str = "") -> Figures:
        """The figures of a point; ``known``: the state of one of the ends, which needs figures."""
        name = self._points.names[number]
        try:
            with self._points.base(number) as base:
                found = figures_in(report_of_session([*self._arguments, f"--membudget-compare={base}"]))
        except OSError as error:
            if known:
                raise UsageMistake(f"{name}: {error}") from None
            found = dict.fromkeys(self._tests, Comparison(NOT_COMPARABLE, str(error)))
        self._figures[number] = found
        lines = [f"      {line}" for line in figure_lines(found, self._figures[0], self._tests or found)]
        print_lines([f"{known or self._state(found):<5} {name}", *lines])
        if known and not any(bytes_at(found, test) is not None for test in found):
            raise UsageMistake(f"{name}: no test has a figure there, see above")
        return found

    def _state(self, figures: Figures) -> str:
        """``bad`` if a test has grown, ``skip`` if one has no figure, else ``good``."""
        if self._grown(figures, self._figures[0], self._tests):
            return BAD
        return SKIP if any(bytes_at(figures, test) is None for test in self._tests) else GOOD

    def _grown(self, figures: Figures, before: Figures, tests: Collection[str]) -> list[str]:
        sizes = ((test, bytes_at(before, test), bytes_at(figures, test)) for test in tests)
        both = ((test, old, new) for test, old, new in sizes if old is not None and new is not None)
        return [test for test, old, new in both if new - old > self._tolerance.allowed_bytes(old)]

    def _conclusion(self, good: int, bad: int) -> Iterator[str]:
        names, what = self._points.names, self._points.what
        before, after = self._figures[good], self._figures[bad]
        if bad - good == 1:
            yield f"\nfirst {what} that takes more: {names[bad]}"
        else:
            between = ", ".join(names[good + 1 : bad + 1])
            yield f"\nthe first {what} that takes more is one of: {between}"
        tests = self._grown(after, before, self._tests)
        for line in figure_lines(after, before, tests):
            yield f"  {line.replace('the good end', names[good])}"
        for test in tests:
            yield f"\n{names[good]} to {names[bad]}, {test}:"
            yield from step_lines(before[test], after[test], terminal_width())


def figures_in(document: Document) -> Figures:
    """The figures of a session that compared with a point; tests without one are last."""
    found = {one.nodeid: one.comparison or Comparison(NOT_COMPARABLE, one.reason) for one in document.tests}
    return dict(sorted(found.items(), key=lambda figure: figure[1].base_bytes is None))


def bytes_at(figures: Figures, test: str) -> int | None:
    """The peak of ``test`` at a point; None without a figure."""
    return figures[test].base_bytes if test in figures else None


def figure_lines(figures: Figures, good: Figures, tests: Collection[str]) -> list[str]:
    """What each of ``tests`` takes at a point, in a line each, compared with the good end."""
    lines = []
    for test in tests:
        size_bytes, good_bytes = bytes_at(figures, test), bytes_at(good, test)
        if size_bytes is None:
            why = figures[test].reason if test in figures else "there is no such test"
            lines.append(f"{test}: no figure: {why}")
            continue
        since = ""
        if good_bytes is not None and size_bytes != good_bytes:
            growth = growth_text(size_bytes - good_bytes, good_bytes, "at the good end")
            since = f", {growth.removeprefix('takes ')}"
        lines.append(f"{test}: {gib_text(size_bytes)}{since}")
    return lines


def step_lines(before: Comparison, after: Comparison, width: int) -> list[str]:
    """What has grown between two points.

    Each point was compared with the working tree. Where ``after`` takes what the working tree takes, the
    findings of ``before`` are those of the step; otherwise the components that have changed are listed.
    """
    if after.base_bytes == before.bytes:
        return change_lines(before, width)
    now, then = (one.base.components if one.base is not None else {} for one in (after, before))
    changes = component_changes(now, then)
    return [f"  {signed_size(size):>12}  {name}" for name, size in changes.items()]


def first_bad(count: int, state_of: Callable[[int], str]) -> tuple[int, int]:
    """The numbers of two points between which the figure grew: next to each other, or no other can be tried.

    Of ``count`` points the first is good and the last is bad. ``state_of(number)`` is ``good``, ``bad`` or
    ``skip``, and is called once for each point that is tried. A point that is skipped is never taken for
    good: its neighbours are tried. If figures go up and down, the result is one of the steps up.
    """
    good, bad, skipped = 0, count - 1, set[int]()
    while True:
        left = [number for number in range(good + 1, bad) if number not in skipped]
        if not left:
            return good, bad
        middle = min(left, key=lambda number: abs(2 * number - good - bad))
        state = state_of(middle)
        if state == SKIP:
            skipped.add(middle)
        elif state == GOOD:
            good = middle
        else:
            bad = middle
