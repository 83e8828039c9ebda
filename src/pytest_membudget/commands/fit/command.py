"""``membudget fit``: its command line, and the sessions that try the values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...budgets.verdict import OVER, WITHIN
from ...errors import UsageMistake
from ...hardware.gpus import find_gpu
from ...reporting.document.document import Document
from ...reporting.terminal.fitting import terminal_width
from ...results.test_result import TestResult
from ..sessions import report_of_session
from ..terminal import Subcommands, at_least_one, print_lines
from .search import FAILS, FITS, TOO_LARGE, Tried, conclusion, next_values
from .text import chart_of, csv_text, result_lines
from .variation import Point, Variation

#: The plugin of the sessions; importing it imports pytest.
_PLUGIN = f"{__package__}.varying"
_OUTCOMES = {WITHIN: FITS, OVER: TOO_LARGE}
#: Exit status where for some card no value fits.
_NONE_FITS = 1


def add_to(commands: Subcommands) -> None:
    """Add the subcommand ``fit``."""
    parser = commands.add_parser(
        "fit",
        help="find the largest value of a test's parameter with which the test fits a card",
        description="Find the largest value of a test's parameter or fixture that fits a card.",
        epilog="What follows -- is pytest's.",
    )
    parser.set_defaults(run=_run, runs_pytest=True)
    parser.add_argument("test", metavar="TEST", help="as pytest has it: tests/test_step.py::test_step")
    parser.add_argument("--vary", required=True, metavar="NAME", help="a parameter or fixture of the test")
    parser.add_argument(
        "--gpu", required=True, action="append", type=_card, metavar="NAME", help="a card; may be repeated"
    )
    parser.add_argument("--max", type=at_least_one, default=65536, help="the largest value (%(default)s)")
    parser.add_argument(
        "--step", type=at_least_one, default=1, help="try multiples of this alone (%(default)s)"
    )
    parser.add_argument(
        "--out", type=_output, help="write the values to a .csv file, or a chart to a .html file"
    )


def _card(text: str) -> str:
    try:
        return find_gpu(text).name
    except UsageMistake as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _output(text: str) -> Path:
    if not text.endswith((".csv", ".html")):
        raise argparse.ArgumentTypeError(f"{text!r} ends neither in .csv nor in .html")
    return Path(text)


def _run(options: argparse.Namespace) -> int:
    if options.step > options.max:
        raise UsageMistake(
            f"--step={options.step} --max={options.max}: no multiple of the step is left to try"
        )
    cards: dict[str, dict[int, Tried]] = {gpu: {} for gpu in options.gpu}
    while points := [
        Point(value, gpu)
        for gpu, tried in cards.items()
        for value in next_values(tried, options.step, options.max)
    ]:
        shown = ", ".join(point.id for point in points)
        print_lines([f"{options.vary}: {shown}"])
        _try(options, points, cards)
    for gpu, tried in cards.items():
        print_lines(result_lines(options.vary, gpu, tried, options.max, terminal_width()))
    if options.out is not None:
        _write(options.out, options.vary, cards)
    return _NONE_FITS if any(conclusion(tried).largest is None for tried in cards.values()) else 0


def _try(options: argparse.Namespace, points: Sequence[Point], cards: Mapping[str, dict[int, Tried]]) -> None:
    """Estimate ``points`` in one session, and add their outcomes to ``cards``."""
    test, _, variant = options.test.partition("[")
    varied = Variation(options.vary, variant.removesuffix("]"), points)
    arguments = ["-p", _PLUGIN, "--membudget-measure=off", test, *options.pytest_arguments]
    found = tried_in(report_of_session(arguments, varied.variables()), points)
    for point in points:
        cards[point.gpu][point.value] = found[point]


def tried_in(document: Document, points: Sequence[Point]) -> dict[Point, Tried]:
    """The outcomes of ``points``. Raises ``UsageMistake`` if one was not estimated."""
    rows = {point: row for point in points for row in document.tests if row.nodeid.endswith(f"-{point.id}]")}
    missing = [point.id for point in points if point not in rows]
    if missing:
        raise UsageMistake(f"the session has estimated nothing for {', '.join(missing)}")
    return {point: _tried(point.value, row) for point, row in rows.items()}


def _tried(value: int, row: TestResult) -> Tried:
    outcome = _OUTCOMES.get(row.verdict, FAILS)
    reason = row.reason.partition("\n")[0]
    figure = row.worst_estimate if outcome == FITS else None
    if figure is None:
        return Tried(value, outcome, reason=reason)
    return Tried(value, outcome, figure.peak.allocated_bytes, figure.peak.reserved_bytes, reason)


def _write(path: Path, name: str, cards: Mapping[str, Mapping[int, Tried]]) -> None:
    try:
        text = csv_text(name, cards) if path.suffix == ".csv" else chart_of(name, cards)
        path.write_text(text, encoding="utf-8")
    except ImportError:
        raise UsageMistake(f"{path}: a chart needs plotly: pip install 'pytest-membudget[html]'") from None
    except OSError as error:
        raise UsageMistake(f"{path}: cannot be written: {error.strerror}") from None
